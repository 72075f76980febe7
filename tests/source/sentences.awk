# SPDX-License-Identifier: MIT
#
# Prints FILE:LINE and each sentence of more than MOST words, for tests/source/check-prose. It reads
# comments of sources and scripts, strings of tables (*.def), docstrings, manuals and guides.
#
# A sentence ends at one of .!?:; and at the end of a paragraph, an item, a heading or a cell. Not
# read: code in pages, and rows of tables in comments, which have a tab or two spaces within them.

# Ends a paragraph.
function stop(    n, w, i, sentence, count)
{
	n = split(paragraph, w, " ")
	for (i = 1; i <= n; i++) {
		sentence = sentence " " w[i]
		if (w[i] ~ /[A-Za-z0-9]/)
			count++
		if (i == n || w[i] ~ /[.!?:;][])"\047`*_]*$/) {
			if (count > MOST)
				print begin ": " count " words:" sentence
			sentence = ""
			count = 0
		}
	}
	paragraph = ""
}

# Adds a line to the paragraph; an item begins another one.
function add(line)
{
	if (match(line, /^ *([A-Z]*[0-9]+\.|[A-Z][0-9]+|[-*]) +/)) {
		stop()
		line = substr(line, RLENGTH + 1)
	}
	if (line ~ /\t/ || line ~ /[^ ]   *[^ ]/) {
		stop()
		return
	}
	if (paragraph == "")
		begin = FILENAME ":" FNR
	paragraph = paragraph " " line
}

function add_comment(line)
{
	sub(/^[ \t]*\*+/, "", line)
	sub(/^ */, "", line)
	if (line == "" || line ~ /^[A-Z][A-Z ,\047-]+$/)
		stop()
	else
		add(line)
}

function source(line,    n, word)
{
	if (!comment && !table && line !~ /^[ \t]*\/\//)
		stop()
	while (line != "") {
		if (comment) {
			n = index(line, "*/")
			add_comment(n ? substr(line, 1, n - 1) : line)
			comment = !n
			line = n ? substr(line, n + 2) : ""
			if (n)
				stop()
		} else if (match(line, /\/[*\/]|"([^"\\]|\\.)*"|\047([^\047\\]|\\.)*\047/)) {
			word = substr(line, RSTART, RLENGTH)
			line = substr(line, RSTART + RLENGTH)
			if (word == "//") {
				add_comment(line)
				line = ""
			} else if (word == "/*") {
				stop()
				comment = 1
			} else if (table) {
				add(substr(word, 2, length(word) - 2))
			}
		} else {
			line = ""
		}
	}
	if (table && !comment && $0 ~ /\)$/)
		stop()
}

function script(line)
{
	if (match(line, /^[ \t]*#[^!]/) || match(line, /^dnl /))
		add_comment(substr(line, RLENGTH))
	else
		stop()
}

function python(line,    n)
{
	while ((n = index(line, "\"\"\"")) && (comment || line ~ /^ *"""/)) {
		if (comment)
			add_comment(substr(line, 1, n - 1))
		stop()
		comment = !comment
		line = substr(line, n + 3)
	}
	if (comment)
		add_comment(line)
	else
		script(line)
}

function markdown(line,    n, cells, i)
{
	if (line ~ /^ *```/)
		code = !code
	if (code || line ~ /^ *(```|$)/ || line ~ /^#/) {
		stop()
	} else if (line ~ /^ *\|/) {
		n = split(line, cells, / *\| */)
		for (i = 1; i <= n; i++) {
			stop()
			add(cells[i])
		}
		stop()
	} else if (paragraph != "" || line !~ /^    /) {
		gsub(/  +/, " ", line)
		add(line)
	}
}

function mdoc(line,    n, w, i)
{
	if (line ~ /^\.Sh/)
		synopsis = line ~ /SYNOPSIS/
	if (line ~ /^\.[BE]d/)
		code = line ~ /^\.Bd/
	if (line ~ /^\.(Sh|Ss|Pp|Bl|It|El|Bd|Ed|Dl|D1|Ta|Nd|Rs|Re|%.)/)
		stop()
	if (code || synopsis || line ~ /^\.(\\"|Sh|Ss|Bl|It|Dl|D1|%.)/)
		return
	if (line ~ /^\./) {
		n = split(line, w, " ")
		line = ""
		for (i = 2; i <= n; i++)
			if (w[i] !~ /^[A-Z][a-z]$/)
				line = line (i > 2 ? " " : "") w[i]
	}
	if (line != "")
		add(line)
}

FNR == 1 {
	stop()
	comment = code = synopsis = 0
	table = FILENAME ~ /\.def$/
}

FILENAME ~ /\.(c|h|hpp|cc|def)$/ { source($0); next }
FILENAME ~ /\.py$/ { python($0); next }
FILENAME ~ /\.[1-8](\.in)?$/ { mdoc($0); next }
FILENAME ~ /\.md$/ || FILENAME == "NEWS" { markdown($0); next }
{ script($0) }

END {
	stop()
}

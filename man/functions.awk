# SPDX-License-Identifier: MIT
#
# man/functions.awk - a manual page, fk_*(3), for each function of client/forkd/client.h, from the
# comment before it
#
#	awk -v dir=DIR -v date="DATE" -f functions.awk client.h
#
# Functions that follow one comment without an empty line share its text; each has a page. The parts
# of a comment:
#	first sentence	up to a full stop, a colon or a semicolon: the page's one line
#	NAME:, NAME, NAME:	at the start of a sentence: arguments, up to the line that ends it
#	Returns	at the start of a sentence: opens RETURN VALUES
#	lines that begin with a tab	a table: a term, two blanks or more, its meaning
# libforkclient(3) has the common properties of all functions.

# A word that names a function, such as "(fk_wait())." or "poll(),", as a macro with its punctuation.
function call(word,    name, before, after, i, is_own)
{
	match(word, /[a-z_]+\(\)/)
	name = substr(word, RSTART, RLENGTH - 2)
	before = substr(word, 1, RSTART - 1)
	after = substr(word, RSTART + RLENGTH)
	is_own = name !~ /^fk_/
	for (i = 1; i <= n_functions; i++)
		is_own = is_own || functions[i] == name
	gsub(/./, "& ", before)
	gsub(/./, " &", after)
	macro((is_own ? ".Fn " before name : ".Xr " before name " 3") after)
}

# The text so far, as lines of mdoc: a sentence each, none too long.
function say(text,    words, n, i, line)
{
	gsub(/\\/, "\\e", text)
	n = split(text, words, " ")
	line = ""
	for (i = 1; i <= n; i++) {
		if (words[i] ~ /^\(?[a-z_]+\(\)[.,;:)]*$/) {
			if (line != "")
				put(line)
			line = ""
			call(words[i])
			continue
		}
		sub(/^-E/, "\\-E", words[i])
		sub(/^\(-E/, "(\\-E", words[i])
		if (line != "" && length(line) + 1 + length(words[i]) > 76) {
			put(line)
			line = ""
		}
		line = line (line == "" ? "" : " ") words[i]
		if (words[i] ~ /[.]\)?$/ && words[i] !~ /^[.][.]/) {
			put(line)
			line = ""
		}
	}
	if (line != "")
		put(line)
}

function put(line)
{
	if (line ~ /^[.']/)
		line = "\\&" line
	page = page line "\n"
}

# Macros, as they are.
function macro(line)
{
	page = page line "\n"
}

function flush_text()
{
	if (pending != "")
		say(pending)
	pending = ""
}

# True if each word of a list of names is an argument of one of the functions.
function are_arguments(list,    names, n, i)
{
	n = split(list, names, ", ")
	for (i = 1; i <= n; i++)
		if (!(names[i] in arguments))
			return 0
	return n > 0
}

# Closes the list of arguments or the table that is open.
function close_list()
{
	flush_text()
	if (list != "")
		macro(".El")
	list = ""
}

function open_list(which, width)
{
	if (list == which) {
		flush_text()
		return
	}
	close_list()
	macro(".Bl -tag -width " width)
	list = which
}

# A sentence may begin here in the text of a comment.
function begin(text,    names, i, n, head)
{
	if (text ~ /^Returns / && !returns) {
		close_list()
		returns = 1
		macro(".Sh RETURN VALUES")
	} else if (match(text, /^[a-z_]+(, [a-z_]+)*: /)) {
		head = substr(text, 1, RLENGTH - 2)
		if (!returns && are_arguments(head)) {
			text = substr(text, RLENGTH + 1)
			open_list("arguments", "ret_client")
			n = split(head, names, ", ")
			head = ".It Fa " names[1]
			for (i = 2; i <= n; i++)
				head = head " , " names[i]
			macro(head)
		} else if (list != "" && at_start) {
			close_list()
			macro(".Pp")
		}
	} else if (list != "" && at_start) {
		close_list()
		macro(".Pp")
	}
	return text
}

# A line of the comment that is no row of a table. Sentences in its middle may open something too.
function text_line(text,    at, rest)
{
	if (list == "table") {
		close_list()
		macro(".Pp")
		at_start = 1
	}
	if (at_start)
		text = begin(text)
	while (match(text, /[.] ([a-z_]+(, [a-z_]+)*: |Returns )/)) {
		at = RSTART
		rest = substr(text, at + 2)
		if (rest !~ /^Returns / && !are_arguments(substr(rest, 1, index(rest, ": ") - 1))) {
			pending = pending " " substr(text, 1, at)
			text = rest
			continue
		}
		pending = pending " " substr(text, 1, at)
		at_start = 0
		flush_text()
		text = begin(rest)
	}
	pending = pending " " text
	at_start = text ~ /[.]$/
	if (at_start)
		flush_text()
}

function terms(text,    names, n, i, row)
{
	n = split(text, names, ", ")
	row = names[1] ~ /^-E/ ? ".It Bq Er" : names[1] ~ /^-/ ? ".It Bq Dv" : ".It Dv"
	for (i = 1; i <= n; i++) {
		sub(/^-/, "", names[i])
		row = row (i > 1 ? " , " : " ") names[i]
	}
	return row
}

function table_line(text,    at)
{
	open_list("table", "Er")
	if (text ~ /^ /) {
		sub(/^ +/, "", text)
		pending = pending " " text
		return
	}
	flush_text()
	at = match(text, /  +/)
	macro(terms(substr(text, 1, at - 1)))
	pending = substr(text, at + RLENGTH)
}

# "const char *socket" -> socket; "void (*ended)(...)" -> ended
function argument_name(text)
{
	if (match(text, /\(\*[a-z_]+\)/))
		return substr(text, RSTART + 2, RLENGTH - 3)
	sub(/.*[ *]/, "", text)
	return text
}

function quoted(text)
{
	return text ~ / / ? "\"" text "\"" : text
}

# A declaration without its semicolon: its lines of the synopsis.
function declare(text,    open, name, type, depth, i, c, arg, lines)
{
	open = index(text, "(")
	name = substr(text, 1, open - 1)
	type = name
	sub(/[a-z_]+$/, "", type)
	sub(/ +$/, "", type)
	sub(/.*[ *]/, "", name)
	lines = ".Ft " quoted(type) "\n.Fn " name
	text = substr(text, open + 1, length(text) - open - 1)
	arg = ""
	depth = 0
	for (i = 1; i <= length(text) + 1; i++) {
		c = substr(text, i, 1)
		if (c == "(")
			depth++
		if (c == ")")
			depth--
		if (c == "" || (c == "," && !depth)) {
			sub(/^ +/, "", arg)
			lines = lines " " quoted(arg)
			arguments[argument_name(arg)]
			arg = ""
		} else {
			arg = arg c
		}
	}
	functions[++n_functions] = name
	synopsis = synopsis lines "\n"
}

# The first sentence as the page's one line; the description has all of it.
function summary(    text, i)
{
	text = ""
	for (i = 1; i <= n_comment && comment[i] !~ /^\t/; i++)
		text = text " " comment[i]
	sub(/^ +/, "", text)
	if (match(text, /[.:;]( |$)/))
		text = substr(text, 1, RSTART - 1)
	return tolower(substr(text, 1, 1)) substr(text, 2)
}

# Each fk_name() of the text that is no function of this page.
function see_also(    i, text, seen, name, names, n, k)
{
	for (i = 1; i <= n_functions; i++)
		seen[functions[i]]
	n = 0
	for (i = 1; i <= n_comment; i++) {
		text = comment[i]
		while (match(text, /fk_[a-z_]+\(\)/)) {
			name = substr(text, RSTART, RLENGTH - 2)
			text = substr(text, RSTART + RLENGTH)
			if (name in seen)
				continue
			seen[name]
			for (k = ++n; k > 1 && names[k - 1] > name; k--)
				names[k] = names[k - 1]
			names[k] = name
		}
	}
	for (i = 1; i <= n; i++)
		macro(".Xr " names[i] " 3 ,")
}

function finish(    i, file)
{
	page = ""
	pending = ""
	list = ""
	returns = 0
	at_start = 1
	macro(".\\\" Made from forkd/client.h by man/functions.awk: change that.")
	macro(".Dd " date)
	macro(".Dt " toupper(functions[1]) " 3")
	macro(".Os")
	macro(".Sh NAME")
	for (i = 1; i <= n_functions; i++)
		macro(".Nm " functions[i] (i < n_functions ? " ," : ""))
	macro(".Nd " summary())
	macro(".Sh SYNOPSIS")
	macro(".In forkd/client.h")
	page = page synopsis
	macro(".Sh DESCRIPTION")
	for (i = 1; i <= n_comment; i++) {
		if (comment[i] ~ /^\t/)
			table_line(substr(comment[i], 2))
		else
			text_line(comment[i])
	}
	close_list()
	macro(".Sh SEE ALSO")
	see_also()
	macro(".Xr libforkclient 3")
	for (i = 1; i <= n_functions; i++) {
		file = dir "/" functions[i] ".3"
		printf "%s", page >file
		close(file)
	}
}

# Ends what is open: an empty line, or the next comment.
function end_of_group()
{
	if (n_functions)
		finish()
	n_functions = 0
	n_comment = 0
	synopsis = ""
	declaration = ""
	split("", arguments)
}

/^\/\*/ { end_of_group(); in_comment = 1; sub(/^\/\*/, "") }
in_comment {
	last = /\*\/$/
	sub(/ *\*\/$/, "")
	sub(/^ \* ?/, "")
	sub(/^ /, "")
	if ($0 != "")
		comment[++n_comment] = $0
	if (last)
		in_comment = 0
	next
}
/^$/ { end_of_group(); next }
declaration != "" || /^[a-z].*[ *]fk_[a-z_]+\(/ && !/^static/ {
	line = $0
	sub(/^[ \t]+/, "", line)
	declaration = declaration (declaration == "" ? "" : " ") line
	if (declaration ~ /;$/) {
		sub(/;$/, "", declaration)
		declare(declaration)
		declaration = ""
	}
}
END { end_of_group() }

# SPDX-License-Identifier: MIT
#
# man/headers.awk - a manual page, NAME(3), for each public name of the headers, from the comment
# before its declaration
#
#	awk -v dir=DIR -f headers.awk MANUAL... HEADER...
#
# A name is public if one of the manuals has it. The pages of client.h go to DIR/client, those of
# pool.h to DIR/pool, and those of the headers for modules to DIR/modules. The declarations from one
# comment at the left margin to the next one share its text, and each name has a page. The parts of
# a comment:
#	first sentence	up to a full stop, a colon or a semicolon: the page's one line
#	NAME:, NAME, NAME:	at the start of a sentence: arguments, up to the line that ends it
#	Returns	at the start of a sentence: opens RETURN VALUES
#	lines that begin with a tab	a table: a term, two blanks or a tab, its meaning
# The comments of members and constants, after them in the same line, are a list. EXAMPLES is the
# shortest display of the manuals that uses one of the names and that tests/cli/check-manuals
# compiles. The manuals have the common properties of all functions and macros.

# A word that names a function, such as "(fk_wait())." or "poll(),", as a macro with its punctuation.
function call(word,    name, before, after, section)
{
	match(word, /[A-Za-z_][A-Za-z0-9_.-]*[A-Za-z0-9](\([1-8]?\))?/)
	before = substr(word, 1, RSTART - 1)
	name = substr(word, RSTART, RLENGTH)
	after = substr(word, RSTART + RLENGTH)
	section = match(name, /\([1-8]\)$/) ? substr(name, RSTART + 1, 1) : 3
	sub(/\([1-8]?\)$/, "", name)
	gsub(/./, "& ", before)
	gsub(/./, " &", after)
	if (name ~ /^FK_/ && (!(name in kinds) || kinds[name] != "macro"))
		macro(".Dv " before name after)
	else if (name in own || word !~ /[1-8]\)/ && !(name in kinds))
		macro(".Fn " before name after)
	else
		macro(".Xr " before name " " section after)
}

# The text so far, as lines of mdoc: a sentence each, none too long.
function say(text,    words, n, i, line)
{
	gsub(/\\/, "\\e", text)
	n = split(text, words, " ")
	line = ""
	for (i = 1; i <= n; i++) {
		if (words[i] ~ /^\(?([a-z_]+\(\)|[a-z][a-z_.-]*\([1-8]\)|FK_[A-Z0-9_]*[A-Z0-9](\(\))?)[.,;:)]*$/) {
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

# True if each word of a list of names is an argument of one of the functions or macros.
function are_arguments(list,    names, n, i)
{
	n = split(list, names, ", ")
	for (i = 1; i <= n; i++)
		if (!(names[i] in arguments || "..." in arguments && names[i] ~ /^[a-z_]+$/))
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
	if (text ~ /^Returns / && n_returns > 1) {
		n_returns = 0
	} else if (text ~ /^Returns / && !returns && has_code) {
		close_list()
		put_members()
		returns = 1
		macro(".Sh RETURN VALUES")
	} else if (match(text, /^[A-Za-z_]+(, [A-Za-z_]+)*: /)) {
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
	if (list == "table")
		at_start = 1
	if (at_start)
		text = begin(text)
	while (match(text, /[.] ([A-Za-z_]+(, [A-Za-z_]+)*: |Returns )/)) {
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
	row = names[1] ~ /^-E/ ? ".It Bq Er" : names[1] ~ /^-/ ? ".It Bq Dv" : names[1] ~ /\(\)$/ ? ".It Fn" : ".It Dv"
	for (i = 1; i <= n; i++) {
		sub(/^-/, "", names[i])
		sub(/\(\)$/, "", names[i])
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
	at = match(text, /  +|\t+/)
	macro(terms(substr(text, 1, at - 1)))
	pending = substr(text, at + RLENGTH)
}

# "const char *socket" -> socket; "void (*ended)(...)" -> ended
function argument_name(text)
{
	if (match(text, /\(\*[a-z_]+\)/))
		return substr(text, RSTART + 2, RLENGTH - 3)
	sub(/\[.*/, "", text)
	sub(/.*[ *]/, "", text)
	return text
}

function quoted(text)
{
	return text ~ / / ? "\"" text "\"" : text
}

# The prototype of a function, without its semicolon, or a macro: its lines of the synopsis.
function declare(text, is_macro,    open, name, type, depth, i, c, arg, lines)
{
	open = index(text, "(")
	name = substr(text, 1, open - 1)
	type = name
	sub(/[a-z_0-9]+$/, "", type)
	sub(/^static inline /, "", type)
	sub(/ +$/, "", type)
	sub(/.*[ *]/, "", name)
	lines = is_macro ? ".Fd \"#define " text "\"" : ".Ft " quoted(type) "\n.Fn " name
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
			if (!is_macro)
				lines = lines " " quoted(arg)
			arguments[argument_name(arg)]
			arg = ""
		} else {
			arg = arg c
		}
	}
	has_code = 1
	return lines "\n"
}

# A member of a structure, an enumerator or a constant, with its comment, if it is public.
function member(name, text,    i)
{
	for (i = 1; i <= n_members; i++)
		if (members[i] == name)
			return
	if (text == "" || name ~ /^(fk_|reserved)/)
		return
	members[++n_members] = name
	meanings[n_members] = text
}

function put_members(    i)
{
	if (n_members)
		macro(".Bl -tag -width Ds")
	for (i = 1; i <= n_members; i++) {
		macro((members[i] ~ /^FK_/ ? ".It Dv " : ".It Fa ") members[i])
		say(meanings[i])
	}
	if (n_members)
		macro(".El")
	n_members = 0
}

# The lines of a type: its members without comments, which go to the list.
function declare_type(text,    n, lines, i, line, note, code, name, body, at)
{
	n = split(text, lines, "\n")
	if (n == 1)
		return ".Bd -literal\n" text "\n.Ed\n"
	note = ""
	body = ""
	for (i = 2; i < n; i++) {
		line = lines[i]
		gsub(/[ \t]+/, " ", line)
		sub(/^ /, "", line)
		code = line
		at = index(line, "/*")
		if (at || in_note) {
			code = at ? substr(line, 1, at - 1) : ""
			line = at ? substr(line, at + 2) : line
			in_note = line !~ /\*\//
			sub(/\*\/.*/, "", line)
			sub(/^ ?\*? /, "", line)
			note = note " " line
			gsub(/^ +| +$/, "", note)
		}
		sub(/ +$/, "", code)
		if (code == "")
			continue
		name = code
		sub(/( =|\[|,|;).*/, "", name)
		if (name ~ /\(\*/)
			name = code
		name = argument_name(name)
		if (name !~ /^fk_/)
			body = body "\t" code "\n"
		member(name, note)
		note = ""
	}
	if (body == "" && lines[1] ~ /^(struct|union|enum) /) {
		sub(/ {$/, ";", lines[1])
		return ".Bd -literal\n" lines[1] "\n.Ed\n"
	}
	return ".Bd -literal\n" lines[1] "\n" body lines[n] "\n.Ed\n"
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

# Each public name of the text that is not of this page.
function see_also(text,    seen, name, names, n, k)
{
	n = 0
	while (match(text, /(fk|FK)_[A-Za-z0-9_]*[A-Za-z0-9](\(\))?/)) {
		name = substr(text, RSTART, RLENGTH)
		text = substr(text, RSTART + RLENGTH)
		sub(/\(\)$/, "", name)
		if (name in seen || name in own || !(name in kinds) || kinds[name] == "typedef")
			continue
		seen[name]
		for (k = ++n; k > 1 && tolower(names[k - 1]) > tolower(name); k--)
			names[k] = names[k - 1]
		names[k] = name
	}
	for (k = 1; k <= n; k++)
		macro(".Xr " names[k] " 3 ,")
}

# The shortest display that uses one of the names.
function example(    i, d, best)
{
	best = 0
	for (d = 1; d <= n_displays; d++)
		for (i in own)
			if ((d, i) in uses && (!best || lengths[d] < lengths[best]))
				best = d
	if (best)
		macro(".Sh EXAMPLES\n.Bd -literal\n" displays[best] ".Ed")
}

# Writes the pages of a group: of each of its names.
function finish(g,    i, n, names, file, synopsis, fields, name, kind, text, manual)
{
	page = ""
	pending = ""
	list = ""
	returns = 0
	has_code = 0
	at_start = 1
	n_members = 0
	# If the description begins with the word, another sentence opens the section.
	text = comments[g]
	n_returns = text ~ /^Returns / ? gsub(/(^|\n|[.] )Returns /, "&", text) : 0
	split("", arguments)
	split("", own)
	n_comment = split(comments[g], comment, "\n")
	n = 0
	synopsis = ""
	text = comments[g]
	for (i = 1; i <= n_declarations[g]; i++) {
		name = declared[g, i]
		kind = declared_kinds[g, i]
		if (!(name in own))
			names[++n] = name
		own[name]
		text = text "\n" declarations[g, i]
		if (kind == "constant") {
			if (synopsis ~ /\.Ed\n$/)
				synopsis = synopsis ".Pp\n"
			synopsis = synopsis ".Fd \"#define " name "\"\n"
			member(name, declarations[g, i])
		} else if (kind != "enumerator") {
			if (synopsis ~ /\.Ed\n$/ && kind !~ /type/)
				synopsis = synopsis ".Pp\n"
			synopsis = synopsis (kind ~ /type/ ? declare_type(declarations[g, i]) : \
				declare(declarations[g, i], kind == "macro"))
		}
	}
	manual = manuals[g]
	split(manual, fields, " ")
	macro(".\\\" Made from " headers[g] " by man/headers.awk: change that.")
	macro(".Dd " dates[fields[1]])
	macro(".Dt " toupper(names[1]) " 3")
	macro(".Os")
	macro(".Sh NAME")
	for (i = 1; i <= n; i++)
		macro(".Nm " names[i] (i < n ? " ," : ""))
	macro(".Nd " summary())
	macro(".Sh SYNOPSIS")
	macro(".In " headers[g])
	page = page synopsis
	macro(".Sh DESCRIPTION")
	for (i = 1; i <= n_comment; i++) {
		if (comment[i] ~ /^\t/)
			table_line(substr(comment[i], 2))
		else
			text_line(comment[i])
	}
	close_list()
	put_members()
	example()
	macro(".Sh SEE ALSO")
	see_also(text)
	macro(".Xr " manual)
	for (i = 1; i <= n; i++) {
		file = dir "/" (manual ~ /^libforkclient/ ? "client/" : \
			manual ~ /^lib/ ? "pool/" : "modules/") names[i] ".3"
		printf "%s", page >file
		close(file)
	}
}

# A declaration below the comment that is open. The macros of client.h have prototypes.
function add(name, kind, text)
{
	if (!(name in named) || !n_comment || kind == "macro" && kinds[name] == "function")
		return
	kinds[name] = kind
	if (name in groups && !(is_grouped && groups[name] == n_groups)) {
		print FILENAME ": " name " has two comments: move its declarations together" >"/dev/stderr"
		exit failed = 1
	}
	if (!is_grouped) {
		is_grouped = 1
		headers[++n_groups] = header
		manuals[n_groups] = manual
		comments[n_groups] = comment[1]
		for (i = 2; i <= n_comment; i++)
			comments[n_groups] = comments[n_groups] "\n" comment[i]
	}
	groups[name] = n_groups
	declared[n_groups, ++n_declarations[n_groups]] = name
	declared_kinds[n_groups, n_declarations[n_groups]] = kind
	declarations[n_groups, n_declarations[n_groups]] = text
}

# The manuals: their dates, their names, their displays that are checked.
FILENAME ~ /[.][37]$/ {
	if (/^\.Dd /) {
		manual = FILENAME
		gsub(/.*\/|[.][37]$/, "", manual)
		dates[manual] = substr($0, 5)
	}
	if (/^\.Ed/)
		is_display = 0
	line = $0
	while (match(line, /(fk|FK)_[A-Za-z0-9_]*[A-Za-z0-9]/)) {
		named[substr(line, RSTART, RLENGTH)]
		if (is_display)
			uses[n_displays, substr(line, RSTART, RLENGTH)]
		line = substr(line, RSTART + RLENGTH)
	}
	if (is_display) {
		displays[n_displays] = displays[n_displays] $0 "\n"
		lengths[n_displays]++
	}
	if (/^\.Bd -literal/ && is_checked) {
		n_displays++
		is_display = 1
	}
	if (!/^\.Bd/)
		is_checked = /^\.\\" check: (module|program|statements)/
	else
		is_checked = 0
	next
}

FNR == 1 {
	header = FILENAME
	sub(/.*\/forkd\//, "forkd/", header)
	sub(/algorithm\/.*/, "algorithm.h", header)
	manual = header ~ /client/ ? "libforkclient 3" : header ~ /pool/ ? "libforkpool 3" : \
		header ~ /fiber/ ? "forkd-fibers 7" : "forkd-modules 7"
}
/^\/\*/ {
	n_comment = is_grouped = 0
	in_comment = 1
	sub(/^\/\*/, "")
}
in_comment {
	last = /\*\/$/
	sub(/ *\*\/$/, "")
	sub(/^ \* ?/, "")
	sub(/^ /, "")
	if ($0 != "")
		comment[++n_comment] = $0
	if (last)
		in_comment = 0
	# The first comment of a header is of all of it.
	if (last && comment[1] ~ /^(forkd\/|SPDX)/)
		n_comment = 0
	next
}
# The rest of a macro, of a function's body.
is_macro { is_macro = /\\$/; next }
/^{/ && declaration == "" { is_body = 1 }
is_body { is_body = !/^}/; next }
/^ *# *define FK_[A-Z0-9_]+\(/ || /^#define fk_[a-z_]+\(/ {
	is_macro = /\\$/
	match($0, /(FK|fk)_[A-Za-z0-9_]+\([^)]*\)/)
	line = substr($0, RSTART, RLENGTH)
	add(substr(line, 1, index(line, "(") - 1), "macro", line)
	next
}
/^ *# *define FK_/ {
	is_macro = /\\$/
	line = ""
	if (match($0, /\/\*.*\*\//)) {
		line = substr($0, RSTART + 3, RLENGTH - 6)
	}
	add($2, "constant", line)
	next
}
type != "" || /^(struct|union|enum) fk_[a-z_0-9]+ {/ || /^typedef .*[{;]$/ {
	type = type (type == "" ? "" : "\n") $0
	if (/^[a-z].*;$/ || /^}.*;$/) {
		line = type
		sub(/ {\n.*/, "", line)
		if (line ~ /^typedef/) {
			line = type
			sub(/;$/, "", line)
		}
		sub(/.*[ *]/, "", line)
		add(line, type ~ /^typedef/ ? "typedef" : "type", type)
		for (line = type; match(line, /\n\tFK_[A-Z_]+/); line = substr(line, RSTART + RLENGTH))
			add(substr(line, RSTART + 2, RLENGTH - 2), "enumerator", "")
		type = ""
	}
	next
}
declaration != "" || /^[a-z].*[ *]fk_[a-z_0-9]+\(/ {
	line = $0
	sub(/^[ \t]+/, "", line)
	if (line != "{")
		declaration = declaration (declaration == "" ? "" : " ") line
	if (line == "{" || declaration ~ /;$/) {
		sub(/;$/, "", declaration)
		line = declaration
		sub(/\(.*/, "", line)
		sub(/.*[ *]/, "", line)
		add(line, "function", declaration)
		declaration = ""
		is_body = $0 == "{"
	}
}
END {
	if (failed)
		exit 1
	for (g = 1; g <= n_groups; g++)
		finish(g)
}

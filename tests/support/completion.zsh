# SPDX-License-Identifier: MIT
#
# completion.zsh DIR LINE: what zsh offers at the end of LINE with the completions of DIR, a
# line each. A second zsh on a terminal of its own is given the line and a tab; its compadd prints
# what it is called with, between two lines of its own.
zmodload zsh/zpty || exit 77
zpty shell zsh -f -i

() {
	local line

	zpty -w shell "dir=${(q)1}; source ${(q)2}"
	while zpty -r shell line; do
		[[ $line != ready* ]] || return
	done
	print -u 2 "zsh has not begun"
	exit 1
} $1 =(<<<'
PROMPT= RPROMPT=
unsetopt prompt_cr prompt_sp
fpath=($dir $fpath)
autoload -Uz compinit && compinit -D -u
bindkey "^I" complete-word
zstyle ":completion:*" insert-tab false
zstyle ":completion:*" completer _complete
mark() { print "\n=====" }
compprefuncs=(mark)
comppostfuncs=(mark exit)
compadd() {
	local -a found
	if [[ ${@[1,(i)(-|--)]} == *-[OAD]\ * ]]; then
		builtin compadd "$@"
		return
	fi
	builtin compadd -A found "$@"
	(($#found)) && print -rl -- $found
	return $((!$#found))
}
print ready
')

zpty -w -n shell "$2"$'\t'
while zpty -r shell; do :; done | tr -d '\r' | awk '/^=====/ { if (n++) exit; next } n'

#compdef pointsman
compdef _pointsman pointsman

# zsh completion for pointsman, which itself knows what to offer.

_pointsman() {
    local -a lines offers
    local line value program=${(Q)words[1]/#\~/$HOME}
    lines=("${(@f)$("$program" __complete -- "${(@Q)words[1,CURRENT-1]}" "${(Q)IPREFIX}${(Q)PREFIX}" 2>/dev/null)}")
    case ${lines[1]} in
    files) compset -P '--*=' ; _files ;;
    directories) compset -P '--*=' ; _files -/ ;;
    words)
        for line in "${(@)lines[2,-1]}"; do
            value=${line%%$'\t'*}
            offers+=("${value//:/\\:}${${line#$value}/$'\t'/:}")
        done
        _describe -t pointsman pointsman offers
        ;;
    esac
}

# It's called at once where it was autoloaded for the first completion.
if [ "${funcstack[1]}" = _pointsman ]; then
    _pointsman "$@"
fi

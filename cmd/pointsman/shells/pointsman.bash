# bash completion for pointsman, which itself knows what to offer.

_pointsman() {
    # bash breaks words at : and =, which addresses and flags are full of. Pieces
    # that nothing separates on the line are put together again.
    local words=() piece rest typed=${COMP_LINE:0:COMP_POINT} i
    for ((i = 0; i <= COMP_CWORD; i++)); do
        rest=${typed#"${typed%%[![:space:]]*}"}
        piece=${COMP_WORDS[i]}
        [[ $rest == "$piece"* ]] || piece=$rest # the cursor is within the word
        if ((i > 0)) && [[ $rest == "$typed" ]]; then
            words[-1]+=$piece
        else
            words+=("$piece")
        fi
        typed=${rest#"$piece"}
    done
    # Readline replaces the last piece alone, and nothing of a lone separator.
    local before=${words[-1]%"$piece"}
    [[ $piece == *[!:=]* ]] || before=${words[-1]}

    # Quotes go as characters: to evaluate a line that nobody has sent yet would run
    # what is in it.
    local lines line program=${words[0]/#\~/$HOME}
    mapfile -t lines < <("${program//[\"\'\\]/}" __complete -- "${words[@]//[\"\'\\]/}" 2>/dev/null)
    COMPREPLY=()
    case ${lines[0]} in
    files) compopt -o default ;;
    directories) compopt -o dirnames ;;
    esac
    for line in "${lines[@]:1}"; do
        line=${line%%$'\t'*}
        COMPREPLY+=("${line#"$before"}")
    done
}

complete -F _pointsman pointsman

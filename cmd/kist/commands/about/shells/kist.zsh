#compdef kist
compdef _kist kist

# zsh completion for kist
#
# It evaluates nothing: neither the words on the command line nor the names
# that kist proposes.

_kist() {
    local out line directive word
    local -a lines found shown nospace

    # Q takes the quotes off and expands nothing.
    out=$(kist __proposals "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null) || return 1
    lines=("${(@f)out}")
    directive=${lines[-1]#:}
    lines[-1]=()
    [[ $directive == <-> ]] || return 1
    (( directive & 1 )) && return 1

    # An option and its value in one word: only the value is proposed.
    if [[ $PREFIX == -*=* ]]; then
        IPREFIX+=${PREFIX%%=*}=
        PREFIX=${PREFIX#*=}
    fi
    if (( directive & 16 )); then
        _files -/
        return
    fi
    for line in $lines; do
        word=${line%%$'\t'*}
        found+=("$word")
        if [[ $line == *$'\t'* ]]; then
            shown+=("$word  -- ${line#*$'\t'}")
        else
            shown+=("$word")
        fi
    done
    if (( $#found == 0 )); then
        (( directive & 4 )) && return 1
        _files
        return
    fi
    (( directive & 2 )) && nospace=(-S '')
    if [[ $out == *$'\t'* ]]; then
        compadd -l -d shown $nospace -a found
    else
        compadd $nospace -a found
    fi
}

# The first call may be the one that loads this file.
if [[ $funcstack[1] == _kist ]]; then
    _kist "$@"
fi

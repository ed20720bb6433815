# bash completion for kist
#
# It evaluates nothing: neither the words on the command line nor the names
# that kist proposes. It needs no other package.

# _kist_split cuts $1, a command line up to the cursor, into its words, without
# their quotes. It sets words, and open to the quote that is still open. The
# last word, which may be empty, is the one to complete.
_kist_split() {
    local line=$1 word='' started='' i c
    words=() open=''
    for ((i = 0; i < ${#line}; i++)); do
        c=${line:i:1}
        case $open$c in
        \' | \") open=$c started=1 ;;
        "''" | '""') open='' ;;
        \\) i=$((i + 1)) word+=${line:i:1} started=1 ;;
        '"\')
            case ${line:i+1:1} in
            [\$\`\"\\]) i=$((i + 1)) word+=${line:i:1} ;;
            *) word+=$c ;;
            esac
            ;;
        ' ' | $'\t' | $'\n')
            [[ -n $started ]] && words+=("$word")
            word='' started=''
            ;;
        *) word+=$c started=1 ;;
        esac
    done
    words+=("$word")
}

# _kist_quote sets quoted to $1 as it has to be typed where the quote $open is
# open. It fails where that is impossible.
_kist_quote() {
    local text=$1 i c
    case $open in
    \')
        quoted=${text//\'/\'\\\'\'}
        ;;
    \")
        quoted=''
        for ((i = 0; i < ${#text}; i++)); do
            c=${text:i:1}
            case $c in
            \!) return 1 ;; # the history takes it, whatever is before it
            [\$\`\"\\]) c=\\$c ;;
            esac
            quoted+=$c
        done
        ;;
    *)
        quoted=''
        [[ -z $text ]] || printf -v quoted %q "$text"
        ;;
    esac
}

# _kist_describe adds the description $1 to quoted.
_kist_describe() {
    local room=$((${COLUMNS:-80} - ${#quoted} - 4))
    [[ -n $1 ]] && ((room > 8)) || return 0
    if ((${#1} > room)); then
        quoted+="  (${1:0:room-1}…)"
    else
        quoted+="  ($1)"
    fi
}

_kist() {
    local words open quoted out directive line word typed described=''
    COMPREPLY=()
    _kist_split "${COMP_LINE:0:COMP_POINT}"
    typed=${words[${#words[@]} - 1]}
    out=$(kist __proposals "${words[@]:1}" 2>/dev/null) || return 0
    out=$'\n'$out
    directive=${out##*$'\n':}
    out=${out%$'\n':*}
    [[ $directive =~ ^[0-9]+$ ]] || return 0
    ((directive & 1)) && return 0

    # An option and its value in one word: only the value is proposed.
    [[ $typed == -*=* ]] && typed=${typed#*=}

    # Descriptions are only for lists that are shown, not inserted.
    case ${COMP_TYPE:-9} in 33 | 63 | 64) described=1 ;; esac
    [[ ${out#$'\n'} == *$'\n'* ]] || described=''

    # What was typed stays as it is, in its quotes. Only the rest is inserted,
    # behind the part of it that bash takes for the word, which is $2.
    while IFS= read -r line; do
        word=${line%%$'\t'*}
        [[ -n $word && ${word:0:${#typed}} == "$typed" ]] || continue
        _kist_quote "${word:${#typed}}" || continue
        quoted=${2-}$quoted
        [[ -n $described && $line == *$'\t'* ]] && _kist_describe "${line#*$'\t'}"
        COMPREPLY+=("$quoted")
    done <<<"$out"

    ((directive & 2)) && compopt -o nospace 2>/dev/null
    if ((directive & 16)); then
        COMPREPLY=()
        compopt +o default -o dirnames 2>/dev/null
    elif ((directive & 4)); then
        compopt +o default 2>/dev/null
    fi
    return 0
}

complete -o default -F _kist kist

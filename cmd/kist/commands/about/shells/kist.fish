# fish completion for kist
#
# It evaluates nothing: neither the words on the command line nor the names
# that kist proposes.

function __kist_proposals
    set -l before (commandline -opc)
    set -l typed (string unescape -- (commandline -ct)); or return
    set -l out (kist __proposals $before[2..-1] $typed 2>/dev/null)
    set -l directive (string replace -r '^:' '' -- $out[-1])
    string match -qr '^[0-9]+$' -- $directive; or return
    set -e out[-1]

    # An option and its value in one word: only the value is proposed.
    set -l option (string match -r -- '^-[^=]*=' $typed)
    if test (math "bitand($directive, 16)") -ne 0
        __fish_complete_directories (commandline -ct)
    else if test (count $out) -gt 0
        printf '%s\n' "$option"$out
    else if test (math "bitand($directive, 4)") -eq 0
        __fish_complete_path (commandline -ct)
    end
end

complete -c kist -e
complete -c kist -f -a '(__kist_proposals)'

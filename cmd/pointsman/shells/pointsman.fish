# fish completion for pointsman, which itself knows what to offer.

function __pointsman_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct | string unescape)
    set -l lines ($words[1] __complete -- $words "$current" 2>/dev/null)
    set -l lead (string match -r -- '^--[^=]*=' "$current")
    switch "$lines[1]"
        case files
            printf "$lead%s\n" (__fish_complete_path (string replace -- "$lead" '' "$current"))
        case directories
            printf "$lead%s\n" (__fish_complete_directories (string replace -- "$lead" '' "$current") '')
        case words
            test (count $lines) -gt 1; and printf '%s\n' $lines[2..-1]
    end
end

complete -c pointsman -f -a '(__pointsman_complete)'

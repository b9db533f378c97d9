/** For fish 3.1 and newer. */
export const fish = `# Completion of pets for fish. To have it in every new shell, run this once:
#   mkdir -p ~/.config/fish/completions; pets completion fish > ~/.config/fish/completions/pets.fish

function __pets_completion
    set -l words (commandline -opc)
    set -l current (string trim --left --chars '"\\'' -- (commandline -ct))
    set -l answer (pets completion fish -- $words[2..-1] "$current" 2> /dev/null)
    set -l option (string match --regex -- '^--[^=]*=' "$current"; or echo)
    set -l value (string replace -- "$option" '' "$current")
    switch "$answer[-1]"
        case :files
            printf '%s\\n' $option(__fish_complete_path "$value")
        case :directories
            printf '%s\\n' $option(__fish_complete_directories "$value")
        case :commands
            # What stands behind -- is completed as if it stood alone.
            complete --do-complete (commandline -cp | string replace --regex -- '^.*? -- +' '')
        case '*'
            printf '%s\\n' $answer[1..-2]
    end
end

complete --command pets --no-files --arguments '(__pets_completion)'
`;

import { printText } from '../output/printer.ts';
import { argument, type Command } from '../program/command.ts';

const shells = ['bash', 'zsh', 'fish'] as const;

/** Prints a script. On Tab, the script calls pets, and src/cli/fast-path.ts responds without loading the program. */
export const completion: Command<{ shell: (typeof shells)[number] }> = {
  name: 'completion',
  summary: 'print a shell completion script',
  examples: ['pets completion bash', 'pets completion fish | source'],
  arguments: [argument('<shell>', 'bash, zsh or fish', shells)],
  extraHint: 'for example: pets completion bash',
  notes: 'The first lines of the script explain how to install it.',
  prints: 'text',
  async run({ shell }, { console }) {
    await printText(console, completionScripts[shell], completionScripts[shell]);
  },
};

// The completion scripts. On Tab, a script runs `pets completion <shell> -- <words…>`. The words are passed as
// arguments and never evaluated, because the line may contain redirections or commands.

/** The script for bash 3.2 and newer. It does not need the bash-completion package. */
const bash = `# Tab completion of pets for bash. To enable it in every new shell, add this line to ~/.bashrc:
#   eval "$(pets completion bash)"

_pets() {
  local IFS=$' \\t\\n' line=\${COMP_LINE:0:COMP_POINT} words last prefix word reply
  # Bash also splits words at = and :. These words are not evaluated.
  read -a words <<< "\${line#*"$1"}"
  [[ $line == *[[:blank:]] ]] && words+=('')
  last=\${#words[@]}-1
  words[last]=\${words[last]#[\\'\\"]}
  # Bash replaces only the part of the word after the last = or :.
  prefix=\${words[last]%"\${2#[\\'\\"]}"}

  reply=$(command pets completion bash -- "\${words[@]}" 2> /dev/null) || return
  COMPREPLY=()
  while IFS= read -r word; do
    case $word in
      '') ;;
      # Bash 3.2 of macOS has no compopt.
      :files) compopt -o default 2> /dev/null ||
        while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$2") ;;
      *) COMPREPLY+=("\${word#"$prefix"}") ;;
    esac
  done <<< "$reply"
}

complete -F _pets pets
`;

/** The script for zsh. It works if it is evaluated, and as the file `_pets` in a directory of `fpath`. */
const zsh = `#compdef pets
# Tab completion of pets for zsh. To enable it in every new shell, add this line to ~/.zshrc, after compinit if used:
#   eval "$(pets completion zsh)"

_pets() {
  local -a reply
  reply=("\${(@f)$(command pets completion zsh -- "\${(@Q)words[2,CURRENT-1]}" "\${(Q)PREFIX}" 2> /dev/null)}")
  if [[ $reply == :files ]]; then
    compset -P '--*='; _files
  else
    compadd -- "\${(@)reply:#}"
  fi
}

if [[ $funcstack[1] == _pets ]]; then
  _pets "$@"
else
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
  compdef _pets pets
fi
`;

/** The script for fish 3.1 and newer. */
const fish = `# Tab completion of pets for fish. To enable it in every new shell, run this once:
#   mkdir -p ~/.config/fish/completions; pets completion fish > ~/.config/fish/completions/pets.fish

function __pets_completion
    set -l words (commandline -opc)
    set -l current (string trim --left --chars '"\\'' -- (commandline -ct))
    set -l reply (command pets completion fish -- $words[2..-1] "$current" 2> /dev/null)
    if test "$reply" = :files
        __fish_complete_path "$current"
    else
        printf '%s\\n' $reply
    end
end

complete --command pets --no-files --arguments '(__pets_completion)'
`;

export const completionScripts = { bash, zsh, fish };

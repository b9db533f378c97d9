// The completion scripts. On Tab, a script runs `pets completion <shell> -- <words…>`. The words are passed as
// arguments and never evaluated, because the line may contain redirections or commands.

/** The script for bash 3.2 and newer. It does not need the bash-completion package. */
const bash = `# Tab completion of pets for bash. To enable it in every new shell, add this line to ~/.bashrc:
#   eval "$(pets completion bash)"

_pets() {
  local line=\${COMP_LINE:0:COMP_POINT} words=() prefix= word reply
  line=\${line#*"$1"}
  # Bash also splits words at = and :. Parts without a blank in between are one word for pets.
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}" ''; do
    if [[ $line == [[:blank:]]* ]]; then
      words+=("$word")
    else
      words[\${#words[@]}-1]+=$word
    fi
    line=\${line#*"$word"}
  done
  # The rest of the line is the word at the cursor. Bash replaces only its part after the last = or :.
  prefix=\${words[\${#words[@]}-1]}
  line=\${line#"\${line%%[![:blank:]]*}"}
  [[ $line == [=:] ]] && prefix+=$line line=
  words[\${#words[@]}-1]=$prefix\${line#[\\'\\"]}

  reply=$(pets completion bash -- "\${words[@]}" 2> /dev/null) || return
  COMPREPLY=()
  while IFS= read -r word; do
    case $word in
      :files) compopt -o default 2> /dev/null ;;
      :*) ;;
      *)
        word=\${word%%$'\\t'*}
        COMPREPLY+=("\${word#"$prefix"}")
        ;;
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
  local line
  local -a reply candidates
  reply=("\${(@f)$(pets completion zsh -- "\${(@Q)words[2,CURRENT-1]}" "\${(Q)PREFIX}" 2> /dev/null)}")
  case $reply[-1] in
    :files) compset -P 1 '--*='; _files ;;
    *)
      for line in "\${(@)reply[1,-2]}"; do
        candidates+=("\${\${line//:/\\\\:}/$'\\t'/:}")
      done
      _describe -t words word candidates
      ;;
  esac
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
    set -l reply (pets completion fish -- $words[2..-1] "$current" 2> /dev/null)
    set -l option (string match --regex -- '^--[^=]*=' "$current"; or echo)
    set -l value (string replace -- "$option" '' "$current")
    switch "$reply[-1]"
        case :files
            printf '%s\\n' $option(__fish_complete_path "$value")
        case '*'
            printf '%s\\n' $reply[1..-2]
    end
end

complete --command pets --no-files --arguments '(__pets_completion)'
`;

/** The script for Windows PowerShell 5.1 and PowerShell 7. Without candidates, PowerShell completes files itself. */
const powershell = `# Tab completion of pets for PowerShell. To enable it in every new shell, add this line to the file $PROFILE:
#   pets completion powershell | Out-String | Invoke-Expression

Register-ArgumentCompleter -Native -CommandName pets -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 |
        Where-Object { $_.Extent.EndOffset -lt $cursorPosition } |
        ForEach-Object { if ($_ -is [System.Management.Automation.Language.StringConstantExpressionAst]) { $_.Value } else { "$_" } })
    # PowerShell before 7.3 drops an empty argument, so pass two quotes instead.
    $words += if ($wordToComplete) { $wordToComplete } else { '""' }
    pets completion powershell '--' @words 2> $null | Where-Object { -not $_.StartsWith(':') } | ForEach-Object {
        $value, $description = $_ -split "\`t", 2
        if (-not $description) { $description = $value }
        [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $description)
    }
}
`;

export const scripts = { bash, zsh, fish, powershell };

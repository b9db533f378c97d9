/** To be evaluated, or to stand as `_pets` in a directory of `fpath`. */
export const zsh = `#compdef pets
# Completion of pets for zsh. To have it in every new shell, add this line to ~/.zshrc, below compinit if it is there:
#   eval "$(pets completion zsh)"

_pets() {
  local line at
  local -a answer offers
  answer=("\${(@f)$(pets completion zsh -- "\${(@Q)words[2,CURRENT-1]}" "\${(Q)PREFIX}" 2> /dev/null)}")
  case $answer[-1] in
    :files) compset -P 1 '--*='; _files ;;
    :directories) compset -P 1 '--*='; _files -/ ;;
    :commands)
      # What stands behind -- is completed as if it stood alone.
      at=\${words[(i)--]}
      shift $at words
      (( CURRENT -= at ))
      _normal
      ;;
    *)
      for line in "\${(@)answer[1,-2]}"; do
        offers+=("\${\${line//:/\\\\:}/$'\\t'/:}")
      done
      _describe -t words word offers
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

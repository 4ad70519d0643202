/** `svc completion`: prints the script with which a shell completes the commands of svc. */
import type { CommandDef } from "citty"
import { RequestError } from "../lib/errors.ts"

export const completion: CommandDef = {
  meta: { name: "completion", description: "Print the completion script for a shell" },
  args: {
    shell: {
      type: "positional",
      required: true,
      description: "Shell: bash, zsh, fish or powershell",
      valueHint: "bash|zsh|fish|powershell",
    },
  },
  run({ args }) {
    const shell = String(args.shell)
    const script = Object.hasOwn(COMPLETION_SCRIPTS, shell) ? COMPLETION_SCRIPTS[shell] : undefined
    if (script === undefined) {
      const shells = Object.keys(COMPLETION_SCRIPTS)
      throw new RequestError("usage", `there is no completion for ${shell}; the shells are ${shells.join(", ")}`)
    }
    process.stdout.write(script)
    return 0
  },
}

/** The scripts. Each calls `svc complete`; cli/complete.ts describes the output. */
export const COMPLETION_SCRIPTS: Readonly<Record<string, string>> = {
  bash: `# svc completion for bash. In ~/.bashrc: source <(svc completion bash)
_svc() {
  local line others word=\${COMP_WORDS[COMP_CWORD]}
  local IFS=$'\\n'
  local lines=($("\${COMP_WORDS[0]/#\\~/$HOME}" complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  others=\${lines[0]}
  COMPREPLY=()
  for line in "\${lines[@]:1}"; do
    line=\${line%%$'\\t'*}
    # bash splits --flag=value into three words, and completes the last of them.
    if [[ $line == --*=* && $word != --*=* ]]; then line=\${line#*=}; fi
    COMPREPLY+=("$(printf '%q' "$line")")
  done
  [[ $word == = ]] && word=
  case $others in
    files) compopt -o filenames; COMPREPLY+=($(compgen -f -- "$word")) ;;
    directories) compopt -o filenames; COMPREPLY+=($(compgen -d -- "$word")) ;;
  esac
}
complete -F _svc svc
`,
  zsh: `#compdef svc
# svc completion for zsh. In ~/.zshrc, after compinit: source <(svc completion zsh)
_svc() {
  local line others
  local -a lines candidates
  lines=("\${(@f)$(\${~words[1]} complete "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  others=$lines[1]
  for line in "\${(@)lines[2,-1]}"; do
    # _describe separates the word from its meaning by a colon.
    candidates+=("\${\${line%%$'\\t'*}//:/\\\\:}\${\${(M)line:#*$'\\t'?*}:+:\${line#*$'\\t'}}")
  done
  (( $#candidates )) && _describe -V svc candidates
  if [[ $PREFIX == --*=* ]]; then compset -P '*='; fi
  case $others in
    files) _files ;;
    directories) _files -/ ;;
  esac
}
if [[ $funcstack[1] == _svc ]]; then _svc "$@"; else compdef _svc svc; fi
`,
  fish: `# svc completion for fish. In ~/.config/fish/config.fish: svc completion fish | source
function __svc_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l lines ($words[1] complete $words[2..-1] 2>/dev/null)
    printf '%s\\n' $lines[2..-1]
    set -l flag (string match -r -- '^--[^=]*=' $words[-1])
    set -l path (string replace -r -- '^--[^=]*=' '' $words[-1])
    switch $lines[1]
        case files
            __fish_complete_path $path | string replace -r -- '^' "$flag"
        case directories
            __fish_complete_directories $path | string replace -r -- '^' "$flag"
    end
end
complete -c svc -f -a '(__svc_complete)'
`,
  powershell: `# svc completion for PowerShell. In $PROFILE: svc completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName svc -ScriptBlock {
    param($word, $ast, $cursor)
    $words = @($ast.CommandElements | Where-Object { $_.Extent.EndOffset -lt $cursor -or $_.Extent.EndOffset -eq $cursor -and $word } | ForEach-Object { "$_" })
    if (-not $word) { $words += '""' }
    $lines = @(& $words[0] complete @($words | Select-Object -Skip 1) 2>$null)
    # Without candidates, PowerShell completes files.
    $lines | Select-Object -Skip 1 | ForEach-Object {
        $value, $meaning = $_ -split "\`t", 2
        if (-not $meaning) { $meaning = $value }
        [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $meaning)
    }
}
`,
}

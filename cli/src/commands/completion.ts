import { Argument } from "@commander-js/extra-typings";
import type { CommandFile } from "../cli.js";
import { candidatesFor } from "../completion/candidates.js";

/** The shells with completion. */
const SHELLS = ["bash", "zsh", "fish"] as const;

/**
 * The script of each shell. It calls `waymark __complete` with the words up to the cursor. If there are no candidates,
 * the shell completes file names.
 */
const COMPLETION_SCRIPTS: Readonly<Record<(typeof SHELLS)[number], string>> = {
  // bash also ends words at : and =, and begins them at @. It replaces only the last such piece, which is $2.
  bash: `_waymark() {
  local line=\${COMP_LINE:0:COMP_POINT} words
  local current=\${line##*[[:space:]]}
  read -a words <<< "\${line%"$current"}"
  local IFS=$'\\n' kept=\${current%"$2"}
  COMPREPLY=($(waymark __complete -- "\${words[@]:1}" "$current" 2>/dev/null))
  COMPREPLY=("\${COMPREPLY[@]#"$kept"}")
  [[ $COMPREPLY != *: ]] || compopt -o nospace 2>/dev/null
}
complete -o default -F _waymark waymark`,
  zsh: `_waymark() {
  local -a candidates
  candidates=(\${(f)"$(waymark __complete -- "\${(@Q)words[2,CURRENT]}" 2>/dev/null)"})
  if (( ! \${#candidates} )); then compset -P '*:'; _files; return; fi
  compadd -S '' -- \${(M)candidates:#*:}
  compadd -- \${candidates:#*:}
}
compdef _waymark waymark`,
  // -f: if there are candidates, no file names are offered.
  fish: `function __waymark_complete
  set -l words (commandline -opc) (commandline -ct)
  set -g __waymark_candidates (waymark __complete -- $words[2..-1] 2>/dev/null)
  set -q __waymark_candidates[1]
end
complete -c waymark -f -n __waymark_complete -a '$__waymark_candidates'`,
};

export const completion: CommandFile = {
  example: 'eval "$(waymark completion bash)"',
  group: "set up",
  noStorage: true,
  register(program, cli) {
    program
      .command("completion")
      .summary("for bash, zsh or fish")
      .description(
        "Prints the script that completes waymark's commands, options and task ids in a shell.\n" +
          'bash, in ~/.bashrc: eval "$(waymark completion bash)"\n' +
          'zsh, in ~/.zshrc after compinit: eval "$(waymark completion zsh)"\n' +
          "fish: waymark completion fish > ~/.config/fish/completions/waymark.fish",
      )
      .addArgument(new Argument("<shell>").choices(SHELLS))
      .action((shell) => cli.output.line(COMPLETION_SCRIPTS[shell]));
    program
      .command("__complete", { hidden: true })
      .argument("[words...]")
      .action(async (words) => {
        for (const candidate of await candidatesFor(program, words)) await cli.output.line(candidate);
      });
  },
};

import { Argument } from "@commander-js/extra-typings";
import type { CommandFile } from "../cli.js";
import { candidatesFor } from "../completion/candidates.js";
import { COMPLETION_SCRIPTS, SHELLS } from "../completion/scripts.js";

export const completion: CommandFile = {
  example: 'eval "$(waymark completion bash)"',
  isSetUp: true,
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

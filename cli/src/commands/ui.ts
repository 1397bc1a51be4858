import { once } from "node:events";
import { InvalidArgumentError } from "@commander-js/extra-typings";
import type { CommandFile } from "../cli.js";
import { printable } from "../printable.js";

const HIGHEST_PORT = 65_535;

export const ui: CommandFile = {
  example: "waymark ui --storage sqlite:checkpoints.db",
  register(program, cli) {
    program
      .command("ui")
      .summary("all of it, in a browser")
      .description(
        "Serves a page to this machine only: tasks, timelines, states, diffs, retention and damage, as they change. " +
          "It prints the page's URL, which has a token, and opens it. Ctrl-C ends it. Without --write, it changes nothing.",
      )
      .option("--port <n>", "default: any free port", portArgument)
      .option("--no-open", "don't open the browser")
      .option("--write", "let the page change the storage: fork, rewind, complete, delete, prune, signal, …")
      .action((options) =>
        cli.withStore(async (session) => {
          const { servePage } = await import("../ui/server.js");
          const canWrite = options.write === true;
          const signal = cli.interruptible();
          const pageFolder = new URL("page/", import.meta.url);
          const server = await servePage({ session, canWrite, port: options.port, pageFolder });
          try {
            await session.output.line(server.url);
            await session.output.flush();
            const rights = canWrite ? "can change it" : "only shows it; --write lets it change something";
            await session.errors.line(printable(`${session.name}: the page ${rights}. Ctrl-C stops the server.`));
            if (options.open) {
              const { openBrowser } = await import("../ui/open-browser.js");
              openBrowser(server.url);
            }
            if (!signal.aborted) await once(signal, "abort");
          } finally {
            await server.close();
          }
        }, "watch"),
      );
  },
};

function portArgument(text: string): number {
  const port = Number(text);
  if (/^\d+$/.test(text) && port >= 1 && port <= HIGHEST_PORT) return port;
  throw new InvalidArgumentError(`It must be a whole number from 1 to ${HIGHEST_PORT}.`);
}

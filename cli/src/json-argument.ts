import { InvalidArgumentError } from "@commander-js/extra-typings";

/**
 * Returns a parser of a JSON argument.
 *
 * @param example - A command line with a quoted text, for the error: the shell removes one pair of quotes.
 */
export function jsonArgument(example: string): (text: string) => unknown {
  return (text) => {
    try {
      return JSON.parse(text);
    } catch {
      throw new InvalidArgumentError(`It must be JSON. Quote a text twice: ${example}.`);
    }
  };
}

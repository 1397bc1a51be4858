import { checkInteger, checkKeys, checkWord } from "../contract/arguments.js";

/** Throws if an option's value is wrong. `what` is the option's name, for the message. */
type Check<Value> = (what: string, value: Value) => void;

/** A check for each option, called if the option is given. `true`: any value is valid, or it is checked elsewhere. */
export type OptionChecks<Options> = {
  readonly [Key in keyof Options]-?: Check<NonNullable<Options[Key]>> | true;
};

/**
 * Checks that options are an object of known keys, and each option that is given.
 *
 * @param what - The name of the options, for the message.
 * @param form - The options that the caller probably means, for the message.
 * @param nameOption - Names an option in messages. Default: `what.key`.
 * @throws {TypeError | RangeError} The message names the option.
 */
export function checkOptions<Options extends object>(
  what: string,
  options: Options,
  checks: OptionChecks<Options>,
  form?: string,
  nameOption = (key: string) => `${what}.${key}`,
): void {
  checkKeys(what, options, Object.keys(checks), form);
  for (const [key, check] of Object.entries<Check<never> | true>(checks)) {
    // The type of `checks` has matched each check to its option.
    const value = options[key as keyof Options] as never;
    if (check !== true && value !== undefined) check(nameOption(key), value);
  }
}

export function wholeFrom(min: number, max?: number): Check<number> {
  return (what, value) => checkInteger(what, value, min, max);
}

export function isOneOf<Word extends string>(...words: readonly Word[]): Check<Word> {
  return (what, word) => checkWord(what, word, words);
}

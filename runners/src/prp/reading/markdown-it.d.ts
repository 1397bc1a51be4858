/** The part of markdown-it that the outline uses. The package has no types of its own. */
declare module "markdown-it" {
  // biome-ignore lint/style/noDefaultExport: the package has a default export.
  export default class MarkdownIt {
    constructor(preset: "commonmark", options: { readonly maxNesting: number });
    parse(text: string, environment: object): Token[];
  }

  export interface Token {
    readonly type: string;
    readonly tag: string;
    /** 1 if the token opens a block, -1 if it closes one. */
    readonly nesting: -1 | 0 | 1;
    /** How many blocks are open around the token. */
    readonly level: number;
    /** The number of the first line, from 0, and of the line after the last line. */
    readonly map: readonly [first: number, end: number] | null;
    readonly content: string;
    readonly markup: string;
    /** The text after the opening fence of a code block. */
    readonly info: string;
    readonly children: readonly Token[] | null;
    attrGet(name: string): string | number | null;
  }
}

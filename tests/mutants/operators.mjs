// @ts-check
import ts from "typescript";

/**
 * A change to a program that its tests should find.
 *
 * @typedef {object} Mutant
 * @property {string} operator
 * @property {number} start - The start of the replaced text, in UTF-16 units.
 * @property {number} end
 * @property {string} text - The replacement.
 */

const { SyntaxKind } = ts;

/**
 * The exchanged operators, by their text. @type {Readonly<Record<string, readonly [operator: string, other:
 * string][]>>}
 */
const EXCHANGED = {
  "&&": [["swap", "||"]],
  "||": [["swap", "&&"]],
  "===": [["negate", "!=="]],
  "!==": [["negate", "==="]],
  "<": [
    ["off by one", "<="],
    ["swap", ">"],
  ],
  "<=": [["off by one", "<"]],
  ">": [
    ["off by one", ">="],
    ["swap", "<"],
  ],
  ">=": [["off by one", ">"]],
  "-": [["swap", "+"]],
};

/** Returns all mutants of a TypeScript file, in the order of its text. @param {string} source */
export function mutantsOf(source) {
  const file = ts.createSourceFile("file.ts", source, ts.ScriptTarget.Latest, true);
  /** @type {Mutant[]} */
  const mutants = [];
  const replace = (/** @type {string} */ operator, /** @type {ts.Node} */ node, /** @type {string} */ text) =>
    mutants.push({ operator, start: node.getStart(file), end: node.getEnd(), text });
  const negate = (/** @type {ts.Expression} */ node) => replace("negate", node, `!(${node.getText(file)})`);

  /** @param {ts.Node} node */
  const visit = (node) => {
    // Types don't run, and messages don't affect behavior.
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node) || ts.isTemplateExpression(node)) return;
    if (ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)) return;
    if (ts.isIfStatement(node) || ts.isWhileStatement(node)) negate(node.expression);
    if (ts.isConditionalExpression(node)) negate(node.condition);
    if (ts.isExpressionStatement(node) || ts.isThrowStatement(node)) replace("drop", node, ";");
    if (ts.isBinaryExpression(node)) {
      const { operatorToken } = node;
      for (const [operator, other] of EXCHANGED[operatorToken.getText(file)] ?? [])
        replace(operator, operatorToken, other);
    }
    if (ts.isNumericLiteral(node)) replace("off by one", node, String(Number(node.text.replaceAll("_", "")) + 1));
    if (node.kind === SyntaxKind.TrueKeyword) replace("negate", node, "false");
    if (node.kind === SyntaxKind.FalseKeyword) replace("negate", node, "true");
    ts.forEachChild(node, visit);
  };
  visit(file);
  return mutants;
}

/** @param {string} source @param {Mutant} mutant */
export function apply(source, { start, end, text }) {
  return source.slice(0, start) + text + source.slice(end);
}

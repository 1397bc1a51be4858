// Biome formats and lints; ESLint adds the rules that need types: a promise that nobody waits for is a lost error. And one
// that Biome doesn't have: which classes `instanceof` may name.
import tseslint from "typescript-eslint";

export default tseslint.config(
  {
    ignores: [
      "**/dist/**",
      "coverage/**",
      "docs/api/**",
      "**/*.js",
      "**/*.mjs",
      "examples/prp-pipeline/project/**",
      "examples/prp-pipeline/.run/**",
      "vitest.config.ts",
    ],
  },
  {
    files: ["**/*.ts", "**/*.tsx"],
    languageOptions: { parser: tseslint.parser, parserOptions: { projectService: true } },
    plugins: { "@typescript-eslint": tseslint.plugin },
    rules: {
      "@typescript-eslint/await-thenable": "error",
      "@typescript-eslint/no-floating-promises": "error",
      "@typescript-eslint/no-misused-promises": "error",
      "@typescript-eslint/only-throw-error": "error",
      "@typescript-eslint/prefer-promise-reject-errors": ["error", { allowThrowingUnknown: true }],
      "@typescript-eslint/return-await": ["error", "error-handling-correctness-only"],
    },
  },
  {
    // The libraries. The command's values come from its own process, which has one realm.
    files: ["{src,adapters,config,conformance,systems,telemetry,testing}/**/*.ts", "runners/src/**/*.ts"],
    rules: {
      "no-restricted-syntax": [
        "error",
        {
          selector:
            "BinaryExpression[operator='instanceof'][right.name=/^(Error|AggregateError|Date|Map|Set|WeakMap|WeakSet|RegExp|Promise|AbortSignal|Object|Function|Array|(Shared)?ArrayBuffer|DataView|\\w+Array)$/]",
          message:
            "A value of another realm (Jest, node:vm) is no instance of it: use isError, src/contract/built-ins.ts, or `types` of node:util.",
        },
      ],
    },
  },
);

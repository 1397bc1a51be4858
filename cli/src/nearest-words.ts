/**
 * The words that a mistyped one most likely stands for: those that take the fewest changes of a character, at most three
 * and at most a third of the word. Two neighbours that were swapped are one change. None if no word is that near.
 */
export function nearestWords(mistyped: string, words: readonly string[]): readonly string[] {
  let nearest: string[] = [];
  let fewest = Math.min(MOST_CHANGES, Math.max(1, Math.floor(mistyped.length / 3)));
  for (const word of words) {
    if (Math.abs(word.length - mistyped.length) > fewest) continue;
    const changes = changesBetween(mistyped, word);
    if (changes < fewest) nearest = [];
    if (changes <= fewest) nearest.push(word);
    fewest = Math.min(fewest, changes);
  }
  return nearest;
}

const MOST_CHANGES = 3;

/** The distance of Damerau and Levenshtein, in which no part is changed twice. */
function changesBetween(from: string, to: string): number {
  let [before, last]: [number[], number[]] = [[], Array.from({ length: to.length + 1 }, (_, at) => at)];
  for (let i = 1; i <= from.length; i++) {
    const row = [i];
    for (let j = 1; j <= to.length; j++) {
      const isSame = from[i - 1] === to[j - 1];
      const changed = (last[j - 1] ?? 0) + (isSame ? 0 : 1);
      const isSwapped = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      const swapped = isSwapped ? (before[j - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY;
      row.push(Math.min(changed, swapped, (last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    [before, last] = [last, row];
  }
  return last[to.length] ?? 0;
}

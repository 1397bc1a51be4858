// @ts-check
/** @param {number} seed @returns {(below: number) => number} Returns random numbers that depend only on the seed. */
export function randomBy(seed) {
  let state = (seed % 2_147_483_646) + 1;
  return (below) => {
    state = (state * 48_271) % 2_147_483_647;
    return state % below;
  };
}

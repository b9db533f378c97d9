/**
 * The number of random cases that a test runs: a tenth of `all` in `npm test`, all of them in `npm run test:all`.
 *
 * @param variable an environment variable that sets another number, as `npm run soak` does
 */
export function cases(all: number, variable?: `PETS_${string}`): number {
  const set = variable && process.env[variable];
  if (set) return Number(set);
  return process.env['PETS_ALL_CASES'] ? all : Math.ceil(all / 10);
}

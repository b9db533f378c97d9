import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { EXECUTABLE, OUTPUT, pinnedNode } from '../../.config/package/executable.ts';
import manifest from '../../package.json' with { type: 'json' };
import type { Suite } from '../bench.ts';
import type { Lab } from '../lab.ts';
import { inTurns } from '../measure.ts';
import { runCommand } from '../processes.ts';
import { missing, ratio, single } from '../rows.ts';
import { pets, serve, start } from '../servers.ts';

const RUNS = 10;

const executable = join(import.meta.dirname, '..', '..', EXECUTABLE);
const debianPackage = join(import.meta.dirname, '..', '..', OUTPUT, `pets_${manifest.version}-1_amd64.deb`);

/** Compares the executable, which `npm run package` has built, with the npm package on the same version of Node. */
export const packaged: Suite = {
  usesPeers: false,
  async run({ lab, rounds }) {
    if (!existsSync(debianPackage)) return [missing('package', 'run npm run package first')];
    const node = pinnedNode();
    const server = await start(lab, { args: serve('--ephemeral', '--seed') });
    const connection = { ...lab.env, PETS_BASE_URL: server.url, PETS_API_KEY: server.key };
    const samples = await inTurns(rounds, {
      node: () => processorMilliseconds(lab, [node, '-e', '0'], lab.env),
      version: () => processorMilliseconds(lab, [executable, '--version'], lab.env),
      list: () => processorMilliseconds(lab, [executable, 'list', '--json'], connection),
      npmList: () => processorMilliseconds(lab, [node, pets, 'list', '--json'], connection),
    });
    await server.stop();
    const megabytes = (path: string) => [statSync(path).size / 1e6];
    return [
      ratio('executable: --version ÷ node -e 0, processor time', 'ms', samples.version, samples.node, {
        most: 1.1,
      }),
      ratio('executable: list --json ÷ npm package, processor time', 'ms', samples.list, samples.npmList, {
        most: 1.1,
      }),
      single('size of the executable', 'MB', megabytes(executable), { most: 120 }),
      single('size of the Debian package', 'MB', megabytes(debianPackage), { most: 28 }),
    ];
  },
};

/** The processor time of a command in milliseconds, as the mean of several runs. */
async function processorMilliseconds(
  lab: Lab,
  command: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<number> {
  const script = `for ((i = 0; i < ${RUNS}; i++)); do "$@" > /dev/null 2>&1 || exit 1; done; times`;
  const { stdout } = await runCommand(lab, ['bash', '-c', script, 'bash', ...command], { env });
  // The second line has the user time and the system time of the children, such as 0m1.234s.
  const [, children = ''] = stdout.split('\n');
  const times = [...children.matchAll(/(\d+)m([\d.]+)s/g)];
  return (
    times.reduce((sum, [, minutes, seconds]) => sum + Number(minutes) * 60 + Number(seconds), 0) *
    (1_000 / RUNS)
  );
}

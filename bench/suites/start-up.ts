import type { Bench, Suite } from '../bench.ts';
import { inTurns } from '../measure.ts';
import { runCommand } from '../processes.ts';
import { type Row, ratio } from '../rows.ts';
import { peer, pets, ready, type Server, serve, start } from '../servers.ts';

/** The greatest ratio that meets the target. After Node 20, V8 loads undici faster, so `pets list` can gain less. */
const LIST_MOST = Number.parseInt(process.versions.node, 10) > 20 ? 0.75 : 0.6;

/** Measures how long a command takes, and how long a server takes from its start to its first response. */
export const startUp: Suite = {
  usesPeers: true,
  run: async (bench) => [...(await commands(bench)), ...(await servers(bench))],
};

async function commands({ lab, rounds }: Bench): Promise<Row[]> {
  const server = await start(lab, { args: serve('--ephemeral', '--seed') });
  const connection = { ...lab.env, PETS_BASE_URL: server.url, PETS_API_KEY: server.key };
  const whole = (args: string[], env: NodeJS.ProcessEnv) => async () =>
    (await runCommand(lab, [process.execPath, ...args], { env })).milliseconds;
  const samples = await inTurns(rounds, {
    list: whole([pets, 'list', '--json'], connection),
    undici: whole([peer('list-with-undici.mjs')], connection),
    node: whole(['-e', '0'], lab.env),
    version: whole([pets, '--version'], lab.env),
    help: whole([pets, '--help'], lab.env),
    tab: whole([pets, 'completion', 'bash', '--', 'list', '--status', ''], lab.env),
  });
  await server.stop();
  const { list, undici, node, version, help, tab } = samples;
  return [
    ratio('pets list --json ÷ a script with undici', 'ms', list, undici, { most: LIST_MOST }),
    ratio('pets --version ÷ node -e 0', 'ms', version, node, { most: 1.15 }),
    ratio('pets --help ÷ node -e 0', 'ms', help, node, { most: 1.4 }),
    ratio('completion on Tab ÷ node -e 0', 'ms', tab, node, { most: 1.25 }),
  ];
}

async function servers({ lab, rounds, peers }: Bench): Promise<Row[]> {
  const untilReady = (launch: () => Promise<Server>) => () => ready(launch);
  const samples = await inTurns<string, number>(rounds, {
    ours: untilReady(() => start(lab, { args: serve('--ephemeral') })),
    bare: untilReady(() => start(lab, { args: [peer('bare-server.mjs')] })),
    ...Object.fromEntries(peers.map(({ name, launch }) => [name, untilReady(() => launch())])),
  });
  const { ours = [], bare = [], ...others } = samples;
  return [
    ratio('ready (spawn to first 200), empty ÷ bare server', 'ms', ours, bare, { most: 2.5 }),
    ...Object.entries(others).map(([name, theirs]) =>
      ratio(`ready: ${name} ÷ bare server`, 'ms', theirs, bare, 'peer'),
    ),
  ];
}

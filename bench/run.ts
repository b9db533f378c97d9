// Side by side with their peers, in interleaved rounds: a table on stdout, and the samples as JSON in bench/results/.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'undici';
import { compare, median, type Row, type Running, startServer, wholeProcess } from './measure.ts';

const ROUNDS = 9;
const REQUESTS = 1_000;

const here = import.meta.dirname;
const pets = join(here, '..', 'dist', 'pets.js');
const peer = (name: string) => join(here, 'peers', `${name}.mjs`);
const home = mkdtempSync(join(tmpdir(), 'pets-bench-'));
const env = { PATH: process.env['PATH'], HOME: home, PETS_CONFIG_DIR: join(home, 'config') };
const serve = [
  pets,
  'serve',
  '--json',
  '--quiet',
  '--ephemeral',
  '--no-profile',
  '--plan',
  'enterprise',
  '--port',
  '0',
];

const rows: Row[] = [];
const running: Running[] = [];
try {
  const ours = await startServer([...serve, '--seed'], env);
  running.push(ours);
  const bare = await startServer([peer('bare-server')], env);
  running.push(bare);
  const connection = { ...env, PETS_BASE_URL: ours.url, PETS_API_KEY: ours.key };
  const node = () => wholeProcess(['-e', '0'], env);
  rows.push(
    await compare(
      'pets list --json ÷ the same request by a script with undici',
      '≤ 0.70',
      ROUNDS,
      () => wholeProcess([pets, 'list', '--json'], connection),
      () => wholeProcess([peer('list-with-undici')], connection),
    ),
    await compare(
      'pets --version ÷ node -e 0',
      '≤ 1.15',
      ROUNDS,
      () => wholeProcess([pets, '--version'], env),
      node,
    ),
    await compare(
      'pets --help ÷ node -e 0',
      '≤ 1.4',
      ROUNDS,
      () => wholeProcess([pets, '--help'], env),
      node,
    ),
    await compare(
      'completion on Tab ÷ node -e 0',
      '≤ 1.25',
      ROUNDS,
      () => wholeProcess([pets, 'completion', 'bash', '--', 'list', '--status', ''], env),
      node,
    ),
    await compare(
      'ready, empty ÷ bare server',
      '≤ 2.5',
      ROUNDS,
      () => ready(serve),
      () => ready([peer('bare-server')]),
    ),
    await compare(
      'GET /v1/pets, one connection ÷ bare server',
      '(rate ≥ 0.75)',
      ROUNDS,
      () => requests(ours, 'GET'),
      () => requests(bare, 'GET'),
    ),
    await compare(
      'durable POST, one connection ÷ bare server',
      '(rate ≥ 0.80)',
      ROUNDS,
      () => requests(ours, 'POST'),
      () => requests(bare, 'POST'),
    ),
  );
} finally {
  await Promise.all(running.map((server) => server.stop()));
  rmSync(home, { recursive: true, force: true });
}
report(rows);

async function ready(args: readonly string[]): Promise<number> {
  const server = await startServer(args, env);
  await server.stop();
  return server.milliseconds;
}

/** Milliseconds for a number of requests, one after another on one connection. */
async function requests({ url, key }: Running, method: 'GET' | 'POST'): Promise<number> {
  const client = new Client(new URL(url).origin);
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  const body = method === 'POST' ? '{"name":"Rex","categoryId":1}' : null;
  const started = performance.now();
  for (let i = 0; i < REQUESTS; i++) {
    const reply = await client.request({ path: '/v1/pets?limit=20', method, headers, body });
    await reply.body.dump();
    if (reply.statusCode >= 300) throw new Error(`${method} answered ${reply.statusCode}`);
  }
  await client.close();
  return performance.now() - started;
}

function report(measured: readonly Row[]): void {
  const machine = { node: process.version, cpu: cpus()[0]?.model, cores: cpus().length, rounds: ROUNDS };
  console.log(
    `Node ${machine.node}, ${machine.cores} cores, medians of ${ROUNDS} rounds (min–max), milliseconds\n`,
  );
  console.log('| what | ratio | reach | ours | peer |\n|---|---|---|---|---|');
  for (const { what, ratio, reach, ours: a, peer: b } of measured) {
    console.log(`| ${what} | ${ratio.toFixed(2)} | ${reach} | ${spread(a)} | ${spread(b)} |`);
  }
  mkdirSync(join(here, 'results'), { recursive: true });
  writeFileSync(
    join(here, 'results', 'latest.json'),
    `${JSON.stringify({ machine, rows: measured }, null, 2)}\n`,
  );
}

function spread(samples: readonly number[]): string {
  return `${median(samples).toFixed(1)} (${Math.min(...samples).toFixed(1)}–${Math.max(...samples).toFixed(1)})`;
}

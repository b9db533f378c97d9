// Measures pets and its peers in interleaved rounds. Prints a table, and writes every sample as JSON to bench/results/.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { statfsSync } from 'node:fs';
import { availableParallelism, constants } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Bench } from './bench.ts';
import { Lab } from './lab.ts';
import { findPeers } from './peers.ts';
import { describeSetting, save, table } from './report.ts';
import type { Row } from './rows.ts';
import { suites } from './suites/index.ts';

const TMPFS = 0x01021994;
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

const options = readOptions();
if (typeof options === 'string') {
  console.error(options);
  process.exitCode = 2;
} else {
  await run(options);
}

type Options = { names: string[]; rounds: number; peers: boolean };

/** Returns what to measure, or the message of a usage error. */
function readOptions(): Options | string {
  const usage = `usage: npm run bench -- [${[...suites.keys()].join('] [')}] [--no-peers] [--rounds 9]`;
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { 'no-peers': { type: 'boolean', default: false }, rounds: { type: 'string', default: '9' } },
    });
    const unknown = positionals.filter((name) => !suites.has(name));
    if (unknown.length > 0) return `unknown suite: ${unknown.join(', ')}\n${usage}`;
    if (!/^[1-9]\d{0,3}$/.test(values.rounds)) return `--rounds must be a number from 1\n${usage}`;
    const names = [...suites.keys()].filter((name) => positionals.length === 0 || positionals.includes(name));
    return { names, rounds: Number(values.rounds), peers: !values['no-peers'] };
  } catch (error) {
    return `${(error as Error).message}\n${usage}`;
  }
}

/** Runs the suites. Ends all processes that they started, also after a signal or a failure. */
async function run(chosen: Options): Promise<void> {
  const lab = new Lab();
  const measured = measure(lab, chosen);
  const signalled = signals.map((signal) => once(process, signal).then(() => signal));
  try {
    const signal = await Promise.race([measured, ...signalled]);
    if (signal) process.exitCode = 128 + constants.signals[signal];
  } finally {
    await lab.close();
    // After a signal, `measure` fails, because `close` kills the processes. Wait until it has printed the results.
    await measured.catch(() => {});
  }
  process.exit();
}

async function measure(lab: Lab, { names, rounds, peers }: Options): Promise<undefined> {
  const chosen = names.flatMap((name) => suites.get(name) ?? []);
  const bench: Bench = {
    lab,
    rounds,
    peers: peers && chosen.some(({ usesPeers }) => usesPeers) ? await findPeers(lab, console.error) : [],
    wrk: !spawnSync('wrk').error,
    onCore: createOnCore(),
  };
  if (statfsSync(lab.directory).type === TMPFS) {
    console.error(
      `${lab.directory} is in memory, where a sync costs nothing; set TMPDIR to a directory on a disk`,
    );
  }
  const rows: Row[] = [];
  try {
    for (const name of names) {
      console.error(`measuring ${name}`);
      rows.push(...((await suites.get(name)?.run(bench)) ?? []));
    }
  } finally {
    // If a suite fails, print and save the results of the suites before it.
    const setting = describeSetting(rounds);
    console.log(table(setting, rows));
    save(join(import.meta.dirname, 'results', 'latest.json'), setting, rows);
  }
}

/** Returns the function `onCore`. Without taskset, or with only one core, `onCore` returns an empty prefix. */
function createOnCore(): Bench['onCore'] {
  const isSupported = availableParallelism() > 1 && spawnSync('taskset', ['-c', '0,1', 'true']).status === 0;
  return (core) => (isSupported ? ['taskset', '-c', String(core)] : []);
}

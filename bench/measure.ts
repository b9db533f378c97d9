import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** Milliseconds of one side, a figure a round. */
export type Samples = readonly number[];

export type Row = {
  what: string;
  /** Ours ÷ the peer's, of the medians. */
  ratio: number;
  reach: string;
  ours: Samples;
  peer: Samples;
};

/** Measures two sides in turns, so that what else the machine does meets both. The first round warms up. */
export async function compare(
  what: string,
  reach: string,
  rounds: number,
  ours: () => number | Promise<number>,
  peer: () => number | Promise<number>,
): Promise<Row> {
  const samples: { ours: number[]; peer: number[] } = { ours: [], peer: [] };
  for (let round = 0; round <= rounds; round++) {
    const [a, b] = [await ours(), await peer()];
    if (round === 0) continue;
    samples.ours.push(a);
    samples.peer.push(b);
  }
  return { what, reach, ratio: median(samples.ours) / median(samples.peer), ...samples };
}

export function median(samples: Samples): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** Milliseconds of a whole process. @throws where it fails */
export function wholeProcess(args: readonly string[], env: NodeJS.ProcessEnv): number {
  const started = performance.now();
  const { status, stderr } = spawnSync(process.execPath, args, { env, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${args.join(' ')} ended with ${status}: ${stderr}`);
  return performance.now() - started;
}

export type Running = {
  child: ChildProcess;
  url: string;
  key: string;
  milliseconds: number;
  stop(): Promise<void>;
};

/** Starts a server that tells `{"url"}` in its first line, and takes the time to its first answer. */
export async function startServer(args: readonly string[], env: NodeJS.ProcessEnv): Promise<Running> {
  const started = performance.now();
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  const { url, key = '' } = JSON.parse(line);
  await (await fetch(`${url}/pets`, { headers: { Authorization: `Bearer ${key}` } })).arrayBuffer();
  return {
    child,
    url,
    key,
    milliseconds: performance.now() - started,
    async stop() {
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
    },
  };
}

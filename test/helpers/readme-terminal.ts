import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import xterm from '@xterm/headless';

export type RecordOptions = {
  cwd: string;
  env: Record<string, string>;
  columns: number;
  rows: number;
  /** What is typed once the screen shows this. */
  typed?: { after: RegExp; text: string }[];
  timeoutMilliseconds?: number;
};

/** Whether this machine has the `script` of util-linux, which gives a program a terminal. */
export const hasTerminal = (): boolean =>
  spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout?.includes('util-linux') ?? false;

/** Runs a line of sh in a pseudo-terminal to its end, and gives the screen as it stands then, with all that has left it. */
export async function recordTerminal(line: string, options: RecordOptions): Promise<xterm.Terminal> {
  const { cwd, env, columns, rows, typed = [], timeoutMilliseconds = 60_000 } = options;
  const terminal = new xterm.Terminal({ cols: columns, rows, scrollback: 10_000, allowProposedApi: true });
  const sized = `stty cols ${columns} rows ${rows}; ${line}`;
  const child = spawn('script', ['--quiet', '--flush', '--return', '--command', sized, '/dev/null'], {
    cwd,
    env: { ...env, TERM: 'xterm-256color', LANG: 'C.UTF-8', SHELL: '/bin/sh' },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const waiting = [...typed];
  child.stdin.on('error', () => {});
  child.stdout.on('data', (bytes: Buffer) => {
    terminal.write(bytes, () => {
      const [next] = waiting;
      if (!next?.after.test(screenLines(terminal).join('\n'))) return;
      waiting.shift();
      child.stdin.write(next.text);
    });
  });
  const timer = setTimeout(() => child.kill('SIGTERM'), timeoutMilliseconds);
  await once(child, 'close');
  clearTimeout(timer);
  await new Promise<void>((resolve) => terminal.write('', resolve));
  return terminal;
}

/** What the terminal has shown, line by line; one that the edge has broken in two is one. */
export function screenLines({ buffer }: xterm.Terminal): string[] {
  const lines: string[] = [];
  for (let y = 0; y < buffer.active.length; y++) {
    const line = buffer.active.getLine(y);
    const isBroken = buffer.active.getLine(y + 1)?.isWrapped === true;
    const text = line?.translateToString(!isBroken) ?? '';
    if (line?.isWrapped) lines.push(`${lines.pop()}${text}`);
    else lines.push(text);
  }
  while (lines.at(-1) === '') lines.pop();
  return lines;
}

import { once } from 'node:events';
import { expect } from 'vitest';
import type { Machine, RunOptions } from './pets.ts';
import type { Sample } from './promise-types.ts';

const LINES = ['list --ndjson', 'serve'];

/** Runs commands with `--json`, and keeps what they write: as samples of `Output` and of `Message`. */
export function promiseSamples() {
  const samples: Sample[] = [];
  const keep = (field: string, json: string) => samples.push({ root: 'Output', field, json });

  /** Each line of stderr has one field, which names its type; those of a service are of `serve -- <command>`. */
  function keepMessages(stderr: string): void {
    for (const line of linesOf(stderr)) {
      const message = JSON.parse(line);
      const [field = '', ...more] = Object.keys(message);
      if (field === 'event') keep('serve -- <command>', line);
      else {
        expect(more, line).toEqual([]);
        samples.push({ root: 'Message', field, json: line.slice(line.indexOf(':') + 1, -1) });
      }
    }
  }

  return {
    samples,

    /** `field` names the type of stdout; without it nothing may stand there. */
    async run(
      machine: Machine,
      field: string | undefined,
      args: readonly string[],
      { exit = 0, ...options }: RunOptions & { exit?: number } = {},
    ): Promise<void> {
      const flags = args.includes('--ndjson') ? [] : ['--json'];
      const [command = '', ...rest] = args;
      const { code, stdout, stderr } = await machine.pets([command, ...flags, ...rest], options);
      expect(code, `${args.join(' ')}\n${stdout}\n${stderr}`).toBe(exit);
      if (field === undefined) expect(stdout).toBe('');
      else if (LINES.includes(field)) for (const line of linesOf(stdout)) keep(field, line);
      else keep(field, stdout);
      if (flags.length > 0) keepMessages(stderr);
    },

    /** Serves until `end`, and keeps its events. */
    async serve(machine: Machine, args: readonly string[]): Promise<{ url: string; end(): Promise<void> }> {
      const child = machine.start(['serve', '--json', '--port', '0', ...args]);
      const output = { stdout: '', stderr: '' };
      for (const name of ['stdout', 'stderr'] as const) {
        child[name]?.setEncoding('utf8').on('data', (text) => {
          output[name] += text;
        });
      }
      const closed = once(child, 'close');
      while (!output.stdout.includes('\n')) {
        await Promise.race([
          once(child.stdout ?? child, 'data'),
          closed.then(() => expect.fail(output.stderr)),
        ]);
      }
      return {
        url: JSON.parse(linesOf(output.stdout)[0] ?? '').url,
        async end() {
          child.kill('SIGTERM');
          await closed;
          for (const line of linesOf(output.stdout)) keep('serve', line);
          keepMessages(output.stderr);
        },
      };
    },
  };
}

const linesOf = (text: string): string[] => text.split('\n').slice(0, -1);

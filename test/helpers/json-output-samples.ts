import { expect } from 'vitest';
import type { Sample } from './json-output-types.ts';
import { type Machine, type ProgramOptions, serve } from './pets.ts';

/** The fields of `Output` whose output has one JSON value per line. */
const LINE_OUTPUTS = ['list --ndjson', 'orders --ndjson', 'serve'];

/** Runs commands with `--json` and collects their output as samples of `Output` and `Message`. */
export function collectSamples() {
  const samples: Sample[] = [];
  /** The arguments of each command that was run, joined with spaces. */
  const commandLines: string[] = [];
  const addSample = (field: string, json: string) => samples.push({ root: 'Output', field, json });

  /** Each line of stderr is an event of `serve -- <command>`, or an object whose only field is named after its type. */
  function addMessages(stderr: string): void {
    for (const line of linesOf(stderr)) {
      const message = JSON.parse(line);
      const [field = '', ...more] = Object.keys(message);
      if (field === 'event') addSample('serve -- <command>', line);
      else {
        expect(more, line).toEqual([]);
        samples.push({ root: 'Message', field, json: line.slice(line.indexOf(':') + 1, -1) });
      }
    }
  }

  return {
    samples,
    commandLines,

    /** `field` names the type of stdout in `Output`. Without `field`, stdout must be empty. */
    async run(
      machine: Machine,
      field: string | undefined,
      args: readonly string[],
      { exit = 0, ...options }: ProgramOptions & { exit?: number } = {},
    ): Promise<void> {
      commandLines.push(args.join(' '));
      const flags = args.includes('--ndjson') ? [] : ['--json'];
      const [command = '', ...rest] = args;
      const { code, stdout, stderr } = await machine.pets([command, ...flags, ...rest], options);
      expect(code, `${args.join(' ')}\n${stdout}\n${stderr}`).toBe(exit);
      if (field === undefined) expect(stdout).toBe('');
      else if (LINE_OUTPUTS.includes(field)) for (const line of linesOf(stdout)) addSample(field, line);
      else addSample(field, stdout);
      if (flags.length > 0) addMessages(stderr);
    },

    /** Starts a service. `end` stops the service and adds its events to the samples. */
    async serve(
      machine: Machine,
      args: readonly string[],
      options: ProgramOptions = {},
    ): Promise<{ url: string; token: string; page: string; end(): Promise<void> }> {
      commandLines.push('serve');
      const service = await serve(machine, args, options);
      return {
        url: service.url,
        token: service.token,
        page: service.page,
        async end() {
          await service.end('SIGTERM');
          for (const line of linesOf(service.stdout())) addSample('serve', line);
          addMessages(service.stderr());
        },
      };
    },
  };
}

const linesOf = (text: string): string[] => text.split('\n').slice(0, -1);

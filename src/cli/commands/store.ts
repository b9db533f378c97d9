import { InterruptedError } from '../../client/errors.ts';
import type { StoreReport } from '../../store/store.ts';
import { CliError } from '../errors/errors.ts';
import { sanitizeForTerminal } from '../output/sanitize.ts';
import { openLocation } from '../profiles/location.ts';
import type { Command, CommandContext, CommandGroup } from '../program/command.ts';
import { parseDirectory } from '../program/parsers.ts';

const check: Command<{ directory?: string }> = {
  name: 'check',
  summary: 'verify a store and print its size, last id and sequence number',
  examples: ['pets store check', 'pets store check ./backup --json'],
  arguments: [
    {
      name: '[directory]',
      description: 'directory of the store (default: that of pets serve)',
      parse: parseDirectory,
    },
  ],
  async run({ directory }, context) {
    const location = await openLocation(directory, context);
    const path = location.place;
    const report = await location.check();
    if (report.damagedBytes > 0) {
      const { animals, lastId, sequence } = report;
      throw new CliError(
        `${describeDamage(path, report)}; without that line: ${animals} animals, last id ${lastId ?? '-'}, sequence number ${sequence}`,
        { code: 'store_error', hint: NEXT_SERVE },
      );
    }
    await printReport(path, report, context);
    return undefined;
  },
};

const copy: Command<{ from: string; to: string }> = {
  name: 'copy',
  summary: 'make a consistent copy of a store, also while a server uses it',
  examples: ['pets store copy ./store ./backup'],
  arguments: [
    { name: '<from>', description: 'directory of the store', parse: parseDirectory },
    {
      name: '<to>',
      description: 'directory for the copy; it must be empty, or not exist yet',
      parse: parseDirectory,
    },
  ],
  async run({ from, to }, context) {
    const interrupt = new AbortController();
    const unsubscribe = context.onSignal(['SIGINT', 'SIGTERM', 'SIGHUP'], () =>
      interrupt.abort(new InterruptedError()),
    );
    const copying = (await openLocation(from, context)).copyTo(to, interrupt.signal);
    const report = await copying.finally(unsubscribe);
    await printReport(to, report, context);
    if (report.damagedBytes > 0) context.console.notice(`${describeDamage(to, report)}; ${NEXT_SERVE}`);
    return undefined;
  },
};

/** Verifies and copies the stores of the local service (docs/serve.md). */
export const store: CommandGroup = {
  name: 'store',
  summary: 'verify or copy a local store',
  commands: [check, copy],
};

const NEXT_SERVE = 'the next pets serve with this store moves that line to a backup file';

const describeDamage = (directory: string, { damagedBytes }: StoreReport): string =>
  `the last line of the store in ${directory} (${damagedBytes} bytes) is not valid because of a torn write or a later change`;

async function printReport(
  directory: string,
  { damagedBytes: _, ...report }: StoreReport,
  { console }: CommandContext,
): Promise<void> {
  const lastId = report.lastId ?? null;
  if (console.json) {
    await console.writeJson({ directory, ...report, lastId });
    return;
  }
  const rows: [string, unknown][] = [
    ['animals', report.animals],
    ['last id', lastId ?? '-'],
    ['sequence number', report.sequence],
    ['orders', report.orders],
    ['API keys', report.keys],
  ];
  const lines = rows.map(([name, value]) => `  ${name.padEnd(15)}  ${value}`);
  await console.write(`${[sanitizeForTerminal(directory), ...lines].join('\n')}\n`);
}

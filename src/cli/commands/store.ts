import type { StoreReport } from '../../store/store.ts';
import { InterruptedError } from '../../system/clock.ts';
import { CliError } from '../core/errors.ts';
import { printText } from '../output/printer.ts';
import { formatCount, sanitizeForTerminal } from '../output/text.ts';
import {
  argument,
  type Command,
  type CommandContext,
  type CommandGroup,
  option,
} from '../program/command.ts';
import {
  addDataOption,
  checkStoreArgument,
  findDatabase,
  findStoreLocation,
  replaceHints,
} from '../serve/options.ts';

const storeArgument = argument(
  '[dir|url]',
  'directory or postgres:// URL of the store (default: PETS_DATA, or a directory in your home)',
  checkStoreArgument,
);

type StoreArgument = { 'dir|url'?: string };

const check: Command<StoreArgument> = {
  name: 'check',
  summary: 'check that a store is intact, and count its contents',
  examples: ['pets store check', 'pets store check ./backup --json'],
  arguments: [storeArgument],
  prints: 'text',
  async run(options, context) {
    const location = await findStoreLocation(options['dir|url'], context);
    const path = location.place;
    const serve = addDataOption('pets serve', options['dir|url'], location, context);
    const missing = `check the directory or URL; to create a store there: ${serve}`;
    const report = await location.check().catch(replaceHints({ missing }));
    if (report.tornEnd) {
      const { start, bytes } = report.tornEnd;
      throw new CliError(
        `the journal in ${path} does not end with a valid record: ${formatCount(bytes, 'byte')} after byte ${start} are not valid, because a write was interrupted or another program changed the file`,
        {
          code: 'store_error',
          hint: 'the next pets serve with this store moves these bytes to a backup file, and continues',
        },
      );
    }
    await printReport(path, report, context);
  },
};

const COPY_IN_USE =
  'stop that server first; for a backup while it runs, copy from its directory: journal.ndjson, store.txt, the directory keys (with cp -R) and, if it exists, bans.json';

const copy: Command<{ from: string; to: string }> = {
  name: 'copy',
  summary: 'copy a store that no server uses, for example to a database; stop its servers first',
  examples: [
    'pets store copy ./store ./backup  # to restore: pets serve --data ./backup',
    'pets store copy ./store postgres://pets@db.example/pets',
  ],
  arguments: [
    argument('<from>', 'directory or URL; pets store check prints where yours is', checkStoreArgument),
    argument('<to>', 'empty or new directory, or URL of a database without a store', checkStoreArgument),
  ],
  prints: 'text',
  async run({ from, to }, context) {
    const { console } = context;
    const [source, target] = [await findStoreLocation(from, context), await findStoreLocation(to, context)];
    const interrupt = new AbortController();
    const unsubscribe = context.onSignal(['SIGINT', 'SIGTERM', 'SIGHUP'], () =>
      interrupt.abort(new InterruptedError()),
    );
    const { copyStore } = await import('../../store/location.ts');
    const copying = copyStore(source, target, {
      signal: interrupt.signal,
      onProgress(done, total) {
        console.showStatus(`copied ${done} of ${formatCount(total, 'animal')}`);
      },
    });
    const reports = await copying.catch(replaceHints({ in_use: COPY_IN_USE })).finally(() => {
      unsubscribe();
      console.showStatus(undefined);
    });
    await printReport(target.place, reports.copy, context);
    if (reports.source.tornEnd) {
      const { start, bytes } = reports.source.tornEnd;
      console.notice(
        `the journal in ${source.place} does not end with a valid record; ${formatCount(bytes, 'byte')} after byte ${start} were not copied`,
      );
    }
  },
};

const migrate: Command<{ url?: string; dryRun?: boolean }> = {
  name: 'migrate',
  summary: 'create the schema of a new database, as pets serve does',
  examples: [
    'pets store migrate postgres://pets@db.example/pets',
    'pets store migrate postgres://pets@db.example/pets --dry-run > schema.sql',
  ],
  arguments: [argument('[url]', 'postgres:// URL of the database (default: PETS_DATA)', checkStoreArgument)],
  options: [option('--dry-run', 'print the SQL to stdout instead of running it')],
  prints: 'text',
  async run({ url, dryRun }, context) {
    const { console } = context;
    const location = await findDatabase(url, context);
    const directory = location.place;
    const upToDate = `the schema in ${directory} is up to date`;
    if (dryRun) {
      const sql = await location.pendingSql();
      await printText(console, { directory, sql }, sql);
      if (sql === '' && !console.json) console.notice(upToDate);
      return undefined;
    }
    const created = await location.migrate();
    await printText(console, { directory, created }, '');
    if (!console.json) console.notice(created ? `created the schema in ${directory}` : upToDate);
  },
};

/** Checks, copies and migrates the stores of the local service (docs/serve.md, docs/postgres.md). */
export const store: CommandGroup = {
  name: 'store',
  summary: 'check, copy or migrate a store (data of pets serve)',
  commands: [check, copy, migrate],
};

async function printReport(
  directory: string,
  { tornEnd: _, ...report }: StoreReport,
  { console }: CommandContext,
): Promise<void> {
  const lastId = report.lastId ?? null;
  const sequence = report.sequence ?? null;
  const rows = [
    ['animals', report.animals],
    ['last id', lastId ?? '-'],
    ...(sequence === null ? [] : [['sequence number', sequence]]),
    ['orders', report.orders],
    ['API keys', report.keys],
  ];
  const lines = rows.map(([name, value]) => `  ${String(name).padEnd(15)}  ${value}`);
  const text = `${[sanitizeForTerminal(directory), ...lines].join('\n')}\n`;
  await printText(console, { directory, ...report, lastId, sequence }, text);
}

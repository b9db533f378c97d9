import type { ImportRequest } from '../import/run.ts';
import { argument, type Command, option } from '../program/command.ts';

export const importCommand: Command<ImportRequest> = {
  name: 'import',
  summary: 'add all animals from a file, as new ones',
  examples: [
    'pets import animals.csv  # from a pipe: pets import -',
    'pets import export.csv --profile staging --add-again  # for a file with ids',
  ],
  arguments: [
    argument(
      '<file>',
      'file in UTF-8: CSV, NDJSON or JSON with name, category and optionally status (default: available); - is standard input',
    ),
  ],
  options: [
    option('--skip-added', 'add only rows that were not added before, and have no id').conflicts('addAgain'),
    option('--add-again', 'add every row, also those added before or with an id'),
    option('--dry-run', 'check the file and show what would be added; sends nothing, but needs an API key'),
    option('--yes', "don't ask at a terminal before adding to profile prod"),
  ],
  notes:
    'First, pets finds out whether rows that got no response were added. After an interruption, run the same command again: it adds the missing rows. If the file is another version of an earlier one, pets asks whether to skip the known rows, to add them again, or to stop; without a terminal it stops (exit code 1) until you choose --skip-added or --add-again. If all rows of a file are known, nothing is added; --add-again adds them as further animals. In any other file, known rows are added again, and a note names them. Rows with an id always need one of the two options. For 30 days, this computer knows a row by its name, category and status; another computer does not.',
  prints: 'rows',
  async run(options, context) {
    const { importFile } = await import('../import/run.ts');
    const { stdin, stdout, stderr, onSignal } = context;
    if (stdin.isTTY || stdout.isTTY || stderr.isTTY) return importFile(options, context);
    // Without a terminal, SIGHUP does not interrupt an import, as with nohup. Node cannot see that nohup has ignored the
    // signal, because it resets all signals when it starts. Without a handler, the signal would end the process.
    const end = onSignal(['SIGHUP'], () => {});
    return importFile(options, {
      ...context,
      onSignal: (signals, handler) =>
        onSignal(
          signals.filter((signal) => signal !== 'SIGHUP'),
          handler,
        ),
    }).finally(end);
  },
};

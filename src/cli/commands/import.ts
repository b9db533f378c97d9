import type { ImportRequest } from '../import/run.ts';
import type { Command } from '../program/command.ts';
import { rowFormats } from '../rows/input.ts';

export const importCommand: Command<ImportRequest> = {
  name: 'import',
  summary: 'add all animals from a file, as new ones',
  examples: [
    'pets import animals.csv',
    'pets import export.csv --profile staging --add-again   for a file with ids',
  ],
  arguments: [
    {
      name: '<file>',
      description:
        'file in UTF-8: CSV with the columns name and category, or NDJSON or JSON with name and categoryId; status is optional (default: available); - is standard input',
    },
  ],
  options: [
    {
      flags: '--format <format>',
      description: 'format of the file',
      defaultText: 'detected',
      choices: rowFormats,
    },
    {
      flags: '--skip-added',
      description: 'add only rows not added before; a changed row counts as new',
      conflicts: ['addAgain'],
    },
    { flags: '--add-again', description: 'add every row, also those added before or with an id' },
    { flags: '--dry-run', description: 'check the file and show what would be added; add nothing' },
    { flags: '--yes', description: "don't ask at a terminal before adding to prod's service" },
  ],
  notes:
    'After an interruption, run the same command again: it adds the missing rows. If all rows were added before, pets adds nothing (exit code 0). It stops (exit code 1) if the file seems to be a new version of an earlier one, or if rows have an id: choose --skip-added, or --add-again, for example after a reset of the service. Otherwise, it names the rows added before and adds all.',
  prints: 'rows',
  survivesHangup: true,
  async run(options, context) {
    const { importFile } = await import('../import/run.ts');
    return importFile(options, context);
  },
};

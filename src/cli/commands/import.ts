import type { ImportRequest } from '../import/run.ts';
import type { Command } from '../program/command.ts';

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
        'file in UTF-8: CSV, NDJSON or JSON with name, category and optionally status (default: available); - is standard input',
    },
  ],
  options: [
    {
      flags: '--skip-added',
      description: 'add only rows that were not added before, and have no id',
      conflicts: ['addAgain'],
    },
    { flags: '--add-again', description: 'add every row, also those added before or with an id' },
    { flags: '--dry-run', description: 'check the file and show what would be added; add nothing' },
    { flags: '--yes', description: "don't ask at a terminal before adding to prod's service" },
  ],
  notes:
    'Rows that were sent without an answer are settled first. After an interruption, run the same command again: it adds the missing rows. If the file is another version of an earlier one, pets asks whether to skip the known rows, to add them again, or to stop; without a terminal it stops (exit code 1) until you choose --skip-added or --add-again. In any other file, known rows are added again, and a note names them. Rows with an id always need one of the two options. Rows are known for 30 days.',
  prints: 'rows',
  survivesHangup: true,
  async run(options, context) {
    const { importFile } = await import('../import/run.ts');
    return importFile(options, context);
  },
};

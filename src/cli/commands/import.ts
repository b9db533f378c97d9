import type { ImportRequest } from '../import/run.ts';
import type { Command } from '../program/command.ts';
import { rowFormats } from '../rows/input.ts';

export const importCommand: Command<ImportRequest> = {
  name: 'import',
  summary: 'add all animals from a file, as new ones',
  examples: [
    'pets import animals.csv',
    'pets import animals.csv --dry-run',
    'pets import animals.csv --skip-added',
    "pets import - --format ndjson --json < animals.ndjson | jq '.[].pet.id'",
  ],
  arguments: [
    {
      name: '<file>',
      description:
        'CSV with the columns name and category, or NDJSON or JSON with name and categoryId; status is optional; - is standard input; after an interruption, run the same command again',
    },
  ],
  options: [
    {
      flags: '--format <format>',
      description: 'format of the file (default: detected from its first character)',
      choices: rowFormats,
    },
    {
      flags: '--skip-added',
      description:
        'add only rows that are new or changed, as new animals; without it, pets adds nothing if the file seems to repeat an earlier import; otherwise it adds every row, and lists those that it adds again',
      conflicts: ['addAgain'],
    },
    { flags: '--add-again', description: 'add every row, also those added before, as after a reset' },
    { flags: '--dry-run', description: 'check the file and show what would be added; add nothing' },
    { flags: '--yes', description: "don't ask on a terminal before adding animals to prod" },
  ],
  prints: 'rows',
  async run(options, context) {
    const { importFile } = await import('../import/run.ts');
    return importFile(options, context);
  },
};

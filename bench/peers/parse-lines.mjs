// Parses a journal line by line and keeps every value: the minimum for loading it without a special format.
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';

const values = [];
createInterface({ input: createReadStream(process.argv[2]) })
  .on('line', (line) => values.push(JSON.parse(line)))
  .on('close', () => process.exit(values.length > 0 ? 0 : 1));

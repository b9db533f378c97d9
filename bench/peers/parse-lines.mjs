// Parses a journal line by line and keeps every value, which is the minimum work for loading it with JSON.parse.
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';

const values = [];
createInterface({ input: createReadStream(process.argv[2]) })
  .on('line', (line) => values.push(JSON.parse(line)))
  .on('close', () => process.exit(values.length > 0 ? 0 : 1));

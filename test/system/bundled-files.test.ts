import { expect, test } from 'vitest';
import { listBundledFiles } from '../../src/system/bundled-files.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

test('a folder that was never built is reported with the command that builds it', async () => {
  const directory = await temporaryDirectory();
  expect(() => listBundledFiles(directory, 'page')).toThrow(
    `${directory}/page is missing; run npm run build first`,
  );
});

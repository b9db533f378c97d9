import { basename } from 'node:path';
import { journalLocation } from '../../../src/store/journal/journal-location.ts';
import { interceptFiles } from '../../helpers/store-faults.ts';
import { temporaryDirectory } from '../../helpers/temp.ts';
import { describeBackend } from './describe-backend.ts';

describeBackend('journal', async (clock) => {
  let reads = 0;
  const files = interceptFiles((name, path) => {
    if (name === 'readdir' && basename(path) === 'keys') reads++;
  });
  const location = journalLocation(await temporaryDirectory(), clock, files);
  return { location, keyReads: async () => reads };
});

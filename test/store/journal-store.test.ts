import { onTestFinished } from 'vitest';
import { openJournalStore } from '../../src/store/journal-store.ts';
import { temporaryDirectory } from '../helpers/temp.ts';
import { describeStore } from './contract.ts';

describeStore('the journal store', async (clock) => {
  const store = await openJournalStore({ directory: await temporaryDirectory(), clock });
  onTestFinished(() => store.close());
  return store;
});

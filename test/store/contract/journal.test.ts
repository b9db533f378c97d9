import { journalLocation } from '../../../src/store/journal/journal-location.ts';
import { temporaryDirectory } from '../../helpers/temp.ts';
import { describeBackend } from './describe-backend.ts';

describeBackend('journal', async (clock) => journalLocation(await temporaryDirectory(), clock));

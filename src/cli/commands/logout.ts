import { chooseProfile, readProfile, writeProfile } from '../profiles/profile.ts';
import type { Command } from '../program/command.ts';

export const logout: Command<object> = {
  name: 'logout',
  summary: 'remove the API key from a profile',
  examples: ['pets logout', 'pets logout --profile staging'],
  async run(_options, context) {
    const { console } = context;
    const profile = chooseProfile(context);
    const stored = readProfile(context, profile);
    if (stored?.key === undefined) {
      console.notice(`profile ${profile} has no key`);
      return;
    }
    const { key: _, ...rest } = stored;
    await writeProfile(context, profile, rest);
    console.notice(`removed the key from profile ${profile}`);
  },
};

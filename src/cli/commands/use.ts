import {
  type ProfileName,
  profileNames,
  readProfile,
  readSettings,
  writeSettings,
} from '../profiles/profile.ts';
import type { Command } from '../program/command.ts';

export const use: Command<{ profile: ProfileName }> = {
  name: 'use',
  summary: 'set the default profile',
  examples: ['pets use staging'],
  arguments: [{ name: '<profile>', description: 'name of the profile', choices: profileNames }],
  async run({ profile }, context) {
    const { console, env } = context;
    await writeSettings(context, { ...readSettings(context), defaultProfile: profile });
    console.notice(`the default profile is now ${profile}`);
    const override = env['PETS_PROFILE'];
    if (override && override !== profile)
      console.notice(`PETS_PROFILE is set to ${override} and overrides the default profile`);
    if (readProfile(context, profile)?.key === undefined) {
      // Without --profile, `pets login` would save the key to the profile in PETS_PROFILE.
      const login = override ? `pets login --profile ${profile}` : 'pets login';
      const next = profile === 'local' ? 'Start a local service: pets serve --seed' : `Log in: ${login}`;
      console.notice(`profile ${profile} has no key yet. ${next}`);
    }
  },
};

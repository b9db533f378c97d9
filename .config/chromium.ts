import { existsSync } from 'node:fs';

const WITHOUT_WINDOWS = '/usr/bin/chromium-headless-shell';

/** Where Debian installs Chromium. The program that cannot open windows takes half the processor time. */
export const CHROMIUM = existsSync(WITHOUT_WINDOWS) ? WITHOUT_WINDOWS : '/usr/bin/chromium';

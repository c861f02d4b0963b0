import { type Browser, chromium } from 'playwright-core';
import { sharedService } from '../run/shared-services.ts';

/** Debian's Chromium, without a window: that of `CHROMIUM_PATH`, else on PATH, else installed. */
export async function startBrowser(): Promise<Browser> {
  const given = process.env['CHROMIUM_PATH'];
  const executablePath = given === undefined || given === '' ? await sharedService('chromium') : given;
  // The sandbox does not start as root; what is shown here is our own.
  return chromium.launch({ executablePath, args: ['--no-sandbox'] });
}

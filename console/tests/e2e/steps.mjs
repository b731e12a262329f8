// What many tests do on a page.

export const button = (page, name) => page.getByRole('button', { name, exact: true });
export const dialog = (page) => page.getByRole('dialog');

/** The page, which may write now. */
export async function unlock(page) {
  await button(page, 'Unlock').click();
  await page.locator('.pill.write').waitFor();
  return page;
}

export async function openKey(page, name) {
  await page.getByRole('searchbox', { name: /Find keys/ }).fill(name);
  await page.keyboard.press('Enter');
  await page.getByText('List', { exact: true }).click();
  await page.getByRole('treeitem', { name }).click();
  await page.getByRole('heading', { name }).waitFor();
}

/** Types a command into the command line. */
export async function type(page, text) {
  const line = page.getByRole('combobox', { name: 'Command' });
  await line.fill(text);
  await line.press('Enter');
}

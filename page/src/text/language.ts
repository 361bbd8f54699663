/** Lists of languages that are written without spaces, by what their names begin with. */
export type Unspaced = "zh" | "zh-Hant" | "ja" | "th";

const TRADITIONAL = /-(?:hant|tw|hk|mo)\b/i;
const SIMPLIFIED = /-hans\b/i;

/** Return which language without spaces a list's name means, as the service does: "zh-TW" is traditional Chinese. */
export function unspacedOf(id: string): Unspaced | null {
  const tag = id.split("_")[0]!;
  const language = tag.split("-")[0]!.toLowerCase();
  if (language === "zh") return TRADITIONAL.test(tag) && !SIMPLIFIED.test(tag) ? "zh-Hant" : "zh";
  return language === "ja" || language === "th" ? language : null;
}

/** Return what a text of a list is marked with, by which the browser chooses letters and breaks lines. */
export function tagOf(id: string): string {
  const unspaced = unspacedOf(id);
  return unspaced === "zh" ? "zh-Hans" : (unspaced ?? id.replace("_", "-"));
}

const RIGHT_TO_LEFT: ReadonlySet<string> = new Set(["ar", "fa", "he", "ur", "yi", "ps", "sd", "ug", "ckb"]);

export function directionOf(lang: string): "ltr" | "rtl" {
  return RIGHT_TO_LEFT.has(lang.split(/[-_]/)[0]!.toLowerCase()) ? "rtl" : "ltr";
}

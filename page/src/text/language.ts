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

/** What is read of a word that ends or begins in kana: 食べる is 食 with た above it, and べる. */
export interface Ruby {
  before: string;
  base: string;
  reading: string;
  after: string;
}

const HIRAGANA = /[\u3041-\u3096]/;

/** Return what stands above which part of a word. */
export function rubyOf(spelling: string, reading: string): Ruby {
  const most = Math.min(spelling.length, reading.length) - 1;
  const isSame = (own: string | undefined, other: string | undefined): boolean => own === other && HIRAGANA.test(own!);
  let tail = 0;
  while (tail < most && isSame(spelling.at(-1 - tail), reading.at(-1 - tail))) tail += 1;
  let head = 0;
  while (head < most - tail && isSame(spelling[head], reading[head])) head += 1;
  return {
    before: spelling.slice(0, head),
    base: spelling.slice(head, spelling.length - tail),
    reading: reading.slice(head, reading.length - tail),
    after: spelling.slice(spelling.length - tail),
  };
}

/** Requests to begin with, by language. */
const EXAMPLES: Readonly<Record<string, readonly string[]>> = {
  ar: ["قصة عن كلب وجد خريطة", "يوم في المدرسة"],
  de: ["Eine Geschichte über einen Hund, der eine Karte findet", "Ein Tag am Meer", "Ein Brief an eine Freundin"],
  en: ["A story about a dog who finds a map", "A day at the sea", "A letter to a friend about a new school"],
  es: ["Una historia sobre un perro que encuentra un mapa", "Un día en el mar", "Una carta a una amiga"],
  fr: ["L'histoire d'un chien qui trouve une carte", "Une journée à la mer", "Une lettre à une amie"],
  it: ["La storia di un cane che trova una mappa", "Un giorno al mare", "Una lettera a un'amica"],
  ja: ["地図を見つけた犬の話", "海での一日", "友だちへの手紙"],
  nl: ["Een verhaal over een hond die een kaart vindt", "Een dag aan zee"],
  pt: ["A história de um cão que encontra um mapa", "Um dia no mar"],
  ru: ["История о собаке, которая нашла карту", "День на море"],
  th: ["เรื่องของหมาตัวหนึ่งที่พบแผนที่", "วันหนึ่งที่ทะเล", "จดหมายถึงเพื่อน"],
  tr: ["Bir harita bulan bir köpeğin hikâyesi", "Deniz kenarında bir gün"],
  zh: ["一只狗找到一张地图的故事", "海边的一天", "给朋友的一封信"],
  "zh-Hant": ["一隻狗找到一張地圖的故事", "海邊的一天", "給朋友的一封信"],
};

/** In no language. */
const PICTURES = ["🐕 🗺️ 🌳", "👧 🏖️ ☀️", "👵 ✉️ 🏠"];

/** Return requests to begin with in a language; a list of the service's own may be named for one: "en-school". */
export function examplesFor(lang: string): readonly string[] {
  return EXAMPLES[unspacedOf(lang) ?? lang] ?? EXAMPLES[lang.split(/[-_]/)[0]!] ?? PICTURES;
}

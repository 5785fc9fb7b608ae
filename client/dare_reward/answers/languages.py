"""What languages call an answer, an option, right and "is": data, from which the patterns and the tests are made.

A row: code, answer, correct or final, is, option; alternatives between bars, in small letters. `JOINED` languages put
no blanks between words, `VERB_LAST` the verb behind the value. English has more forms and rules of its own.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["JOINED", "LANGUAGES", "VERB_LAST", "Language", "alternatives", "every"]


class Language(NamedTuple):
    code: str
    answer: tuple[str, ...]
    correct: tuple[str, ...]
    copula: tuple[str, ...]
    option: tuple[str, ...]


_TABLE = """
ar; الإجابة|الاجابة|الجواب|إجابة; الصحيحة|الصحيح|النهائية|النهائي; هي|هو; الخيار|الاختيار
bn; উত্তরটি|উত্তর; সঠিক|চূড়ান্ত; হলো|হল|হচ্ছে|হবে; বিকল্প
cs; odpověď; správná|konečná|správný; je; možnost
da; svaret|svar; rigtige|korrekte|endelige; er; mulighed
de; antwort|lösung; richtige|korrekte|finale|endgültige|auf die frage; ist|lautet|beträgt|wäre; option|buchstabe
el; απάντηση; σωστή|τελική|ορθή; είναι; επιλογή
es; respuesta; correcta|final|definitiva|correcto; es|sería|correcta es; opción|opcion|letra|variante
fa; پاسخ|جواب; صحیح|درست|نهایی; برابر است با|است; گزینه
fi; vastaus; oikea|lopullinen; on; vaihtoehto
fr; réponse|reponse; finale|correcte|exacte|définitive|bonne|à la question; est|serait|vaut; option|lettre
he; התשובה|תשובה; הנכונה|הסופית; היא|הוא; אפשרות
hi; उत्तर|जवाब; सही|अंतिम; है; विकल्प
hu; válasz; helyes|végső; az; lehetőség
id; jawabannya|jawaban; benar|yang benar|akhir|akhirnya|tepat|yang tepat; adalah|ialah|yaitu; pilihan|opsi
it; risposta; corretta|finale|giusta|definitiva; è|é; opzione|lettera
ja; 答え|解答|回答|正解; 最終|正しい; は|が; 選択肢
ko; 정답|답변|답; 최종; 은|는|이|가; 선택지|보기
ms; jawapannya|jawapan; betul|akhir|tepat; ialah|adalah; pilihan
nl; antwoord; juiste|correcte|uiteindelijke|definitieve; is|luidt; optie
no; svaret|svar; riktige|endelige; er; alternativ
pl; odpowiedzią|odpowiedź; prawidłowa|poprawna|ostateczna|prawidłową|poprawną; to|jest|brzmi; opcja
pt; resposta; correta|final|certa|definitiva; é|seria; opção|opcao|alternativa|letra
ro; răspunsul|răspuns; corect|final; este; opțiunea|varianta
ru; ответом|ответа|ответ; правильный|верный|на задачу|на вопрос|задачи; является|это|равен|будет|составляет; вариант
sv; svaret|svar; rätta|rätt|korrekta|slutliga; är; alternativ
sw; jibu; sahihi|la mwisho|sahihi ni|la mwisho ni; ni; chaguo
ta; பதில்|விடை; சரியான|இறுதி; ஆகும்; விருப்பம்
te; సమాధానం|జవాబు; సరైన|తుది; అవుతుంది; ఎంపిక
th; คำตอบ; ที่ถูกต้อง|สุดท้าย|ที่ถูก|ที่ได้; คือ|เป็น|เท่ากับ; ตัวเลือก
tr; cevap|cevabı|yanıt; doğru|nihai|son; şudur; seçenek|şık
uk; відповіддю|відповідь; правильна|остаточна; є|це|дорівнює; варіант
ur; جواب; درست|صحیح|حتمی; ہے; آپشن
vi; đáp án|câu trả lời|đáp số; đúng|cuối cùng|chính xác|đúng nhất; là|bằng; phương án|lựa chọn
yo; ìdáhùn|idahun; tó tọ́|ìkẹyìn; ni|jẹ́; àṣàyàn
zh; 答案; 最终|正确|最終|正確; 应该是|應該是|应是|應是|应为|應為|就是|便是|也是|是|为|為|选|選|等于; 选项|選項|选择|選擇
"""

LANGUAGES = tuple(
    Language(code.strip(), *(tuple(w.strip() for w in words.split("|")) for words in parts))
    for code, *parts in (line.split(";") for line in _TABLE.strip().splitlines())
)
JOINED = frozenset({"ja", "ko", "th", "zh"})
VERB_LAST = frozenset({"fa", "hi", "ta", "te", "ur"})


def every(field: str) -> tuple[str, ...]:
    """The words of all languages for one column, each once, longer ones first."""
    words = {word for language in LANGUAGES for word in getattr(language, field)}
    return tuple(sorted(words, key=lambda word: (-len(word), word)))


def alternatives(*fields: str) -> str:
    """The words of columns as a part of a pattern."""
    return "|".join(word for field in fields for word in every(field))

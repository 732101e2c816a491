"""What the official bAbI v1.2 download holds: names, SHA-256 of every file, and its words.

Weston et al. 2015, "Towards AI-complete question answering"; the archive is `tasks_1-20_v1-2.tar.gz`.
"""

from __future__ import annotations

__all__ = ["CHECKSUMS", "DASH", "STEMS", "VOCABULARY"]

# Task number -> the middle of its file names, `qa{number}_{stem}_{train|test}.txt`.
STEMS: dict[int, str] = {
    1: "single-supporting-fact",
    2: "two-supporting-facts",
    3: "three-supporting-facts",
    4: "two-arg-relations",
    5: "three-arg-relations",
    6: "yes-no-questions",
    7: "counting",
    8: "lists-sets",
    9: "simple-negation",
    10: "indefinite-knowledge",
    11: "basic-coreference",
    12: "conjunction",
    13: "compound-coreference",
    14: "time-reasoning",
    15: "basic-deduction",
    16: "basic-induction",
    17: "positional-reasoning",
    18: "size-reasoning",
    19: "path-finding",
    20: "agents-motivations",
}

# The token that stands where one answer word is due.
DASH = "-"

# Every word of the English tasks in lower case with the marks `. ?` and the dash, sorted: 159 of them. The
# order is part of what a trained model is, so it is fixed here instead of being collected from files.
_WORDS = """
- . ? a above afraid after afternoon afterwards and antoine apple are back bathroom bedroom before below
bernhard bigger bill blue bored box brian carrying cat cats chest chocolate chocolates cinema color
container daniel did discarded do does down dropped e east either emily evening fit fits following
football fred frog from garden gave gertrude get give go got grabbed gray green greg hallway handed he
how hungry in inside is jason jeff jessica john journeyed julie julius kitchen left lily lion longer
many mary maybe mice milk morning mouse moved n no none north not nothing objects of office one or
pajamas park passed picked pink put received rectangle red rhino right s sandra school she sheep south
sphere square suitcase sumit swan than that the then there they thirsty this three tired to took
travelled triangle two up w was went west what where white who why will winona wolf wolves yann yellow
yes yesterday you
"""
VOCABULARY: tuple[str, ...] = tuple(_WORDS.split())

# SHA-256 of the files of tasks 1 to 20. The test files of the two variants are the same. The full en-10k training file
# of task 3 has none: it is checked by its counts. Its stand-in `.partial.txt` holds 385 of the 2,000 official stories.
_TRAIN_10K = """
749ea9f7c99070feb2d88c975a254417a0dcc8274add4435ae5ae24c7afc7e9d
d4074c0c5d54f70ce2f538056ce2b6ef6a313da336da4245f1a24f1298e37ef3
82096130c5043a794a9879bfebb5c1b84f6989bdde36f0fe5d613cfff23d1672
5d11b821d35234988ab907866aa7ce718e6b6d751acf63bdef52262afb59f12c
2506910935b701bac64fc8b1d7ff12bd8d0f47ceefca183454282bec784c12a5
602f379184bf3cb59660d0f7769d9c94ccdc1fc4d82dfe90bd460d985b1ff0c5
4a2508733bef9b38cfce4b3108a91b83cdee378de4a7370e4d32fea2dacd3b7d
9518da2d3aa5d98bec33335e0d5ba3a22c2bd1929ee679085d37eb50a7652e4a
5f8949f6ef7d64516fc4dd5732b12b5932d057b1a614e8ac94e795fb020d4ff0
c5c0788b0446095c07a0442784cad2b59c1d58e875ebe8ad852f5e3f628613f4
edfcd97fecd4a5045af25e1790cf1408856ae362c39521b1b69cd32b88ec0ced
39d58df3564916c66cebc98befb65d605c032181e51208730fd8837a77bc166a
c530fdf122d26617a8a03ba5cdbacee87c22624ba7f50d1f07f9658c900e22d8
c322e0814eef71f088af1aa1334e7ae4b1ee6ca18f2ee94c05e2189226964ed6
0a86673f7fafa484f8ee394048f03de19405bdc40b58f21086969efad2862010
27fef347ce0b25dd148efea2b15f154926e0e9069d4ea6ab9cfca3add492ab35
8a383651e009db50d6c9effed5778b8646c28c55fadb1592b5f4d8d3a187bbce
9e7c15107067d2070170ef12579a8bfe34dfc35a7ac9ebd13f2001dc1a7488f9
6cfdc6f448e3cf0e3d8a390fa3add461935b033f89ede32aeef30812401ec91e
36f20f3baf6bad2297d5b9fd877e633550c36106fe78bc10ddfb7b1eede62573
"""
_TRAIN = """
c64ba9b1a49bbb111ffc4cd2ae4f129d25c012399dd7ade9679eea464b9afb05
a4978af5bc0dc30191810e7c9949aaa6eae939ed0f6beb9fcb5f4330c2a27860
a6e78019f36a02a7ed71fe6aaded0b563ff09c8deec392931801fcd9c6af4d60
c9370502d85fa382f32d1fea2111e817f81ae9e3e79eb2924a1a5392a90417fa
086cd59c3ca9677bfac3d6a22ca5853c76a5c1fbae3159c7c4a6aef759a74ec0
5a133115ee35d475776df703ff605d145b11effbcdbf7e74861f9d5639246a5a
dca03bd91876951c49f1c971c83c9dd55404de60201b7b6435451cf7ddb4751c
058604df6f9440458317e8ae685d2b7b84261e1a80b4d6410a9140d16f81bf06
0c3b89921af0caea1c4059ee3f7b7f2a88869f924195a428da37820446b8c49f
0b7691689447bab05476c5b48c44999b41e747c3978df69c18fdd87b60d6e8b3
9468de9a1f256f43dfda693a5d07182d21149a82b65f7c2451c64e9cff5eb138
45c2764bb2d3c8f699d35e9d9aa7958fcd96379c6e907116cdf74526c108bb25
533a391edbda743e4c99504de88b40cdded5b1d5ef454d1390f0863f748a4cc9
b7561cbc624205c9c2fdbb8c843cfa8ad90edd65e78bb223fc6dea8113662df8
e856ebfdcce4dd7d617c1d10f985e96a0850c0ca18e9a19a017cb710d135ed3d
20121005137e3d4b061a086eb177a456303d5742b764eb8da2d0e480b6af4d28
20083bf56ff74f0e7cf5e3e2f8c3905cdb8ef09293c3e8cf7a96ed8b45ae2277
18b7dcf52c9a0e87e4e7dd3d65b7e5a630de039645f52a1294197af7481d739d
dcb788352a56effb7bea1449128f31cc9c342c8c327b6df2caeee0e379e6ad3a
29580ad55fb7b4b29ba014696056cc68f8f347dac3be88470fd692ad60150398
"""
_TEST = """
55acf66cef2f6d798e2aa1d056e1ec8f24e910ea9215b639450574321132959b
eff93fb9cd81ba02eb765772cf7cc269769ed44ec71cbbbc19cfb16ee5eba0f6
17795c977100baf8188f386522ae301b62d6c1a13efc01b3aea781e588b4d57f
07f0ca18ddeea9eed4ba6d59e162adcb0ce44815721114b3540d92825509331e
ec825c1c8a76e63a31f0d7a7763cd63740e98332fa9bdf246a19068949bd5f97
b108b16f1eccbd1c24df6dca2649079a7b2f10af7fd12d4c45a3393802de59e3
a74d1f2b91329b2bae814d41cdac2fbdfdf0328562b7d8afa9a0fa576d461e27
362a653c821a580fa315a85243b4f03bfa06fa7e0269b6f8e596f8fe6911646a
63590aff3f89993db409f0e9a9eb39c2a5b9d5efff99b255d800a891b0044d9f
fde8f20ed0b3ba979058ed391a566af34653f23baab5b2793ee37f87ef4e88b7
46f3290d0158ce1285a40cd2d793f5a65f86ae5000226e165cbc85a3dfeb2f6f
6437718f8f9801ce345869e910b896836cdc6fd2d01dc7b4d2df49730703b4b1
76a25b684f23c9cc473d8cd1465506168b9a1ec8891cfc59d0bbd87e6a064990
e3f0b19858ffbec3ed1e49076cc4d1295a89ce146c50318b862f13f202b3caf2
32b77e117fe9acf5f94906684e3b5206de0108e646c76e1da3e022896ec7ee94
4a11e55366f2a5a859b5a81f683ee23801bdbe71ef984e51adb976bd053e8dcf
9e1e0250ed4ec1831757fab26c04138f81ea557ebf6976a220db879cbed04bac
d34f70eb7228a276fcb3a7854174fe562c5634f4fb454a39fc3d1ad9934be3ef
023e391f0d7f79c9e6ae1c46c093e2d0dbd50ab8fbd8965e037a75e3614c20e5
bd3bde3788ac14ba0ae095078f7b820fbd2bfa6a34dba9d1d46a34afde9c2729
"""
_FILES = (("en-10k", "train", _TRAIN_10K), ("en-10k", "test", _TEST), ("en", "train", _TRAIN), ("en", "test", _TEST))


def _path(variant: str, task: int, split: str) -> str:
    ending = "train.partial" if (variant, task, split) == ("en-10k", 3, "train") else split
    return f"{variant}/qa{task}_{STEMS[task]}_{ending}.txt"


CHECKSUMS: dict[str, str] = {  # by path in the archive
    _path(variant, task, split): digest
    for variant, split, digests in _FILES
    for task, digest in zip(STEMS, digests.split(), strict=True)
}
